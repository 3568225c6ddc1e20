return canary({ plain = "nginx.ingress.kubernetes.io/", own = "mse.ingress.kubernetes.io/" })
