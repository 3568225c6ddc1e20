return canary({ plain = "alb.ingress.kubernetes.io/", order = "1" })
