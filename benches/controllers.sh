#!/usr/bin/env bash
# Measures a controller. Arguments go to the bench: ./benches/controllers.sh cloneset --pods 100,1000
exec "$(dirname "$0")/run.sh" bench-controllers "$@"
