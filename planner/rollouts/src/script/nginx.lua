return canary({ plain = "nginx.ingress.kubernetes.io/" })
