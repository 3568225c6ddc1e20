#!/usr/bin/env bash
# Measures at the size of users. Arguments go to the bench: ./benches/scale.sh --scale 0.01
exec "$(dirname "$0")/run.sh" bench-scale run "$@"
