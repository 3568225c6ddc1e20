return canary({ plain = "nginx.ingress.kubernetes.io/", own = "higress.io/" })
