#!/usr/bin/env bash
# Measures at the size of users. Arguments go to the bench: ./benches/scale.sh --only real --units 1
exec "$(dirname "$0")/run.sh" bench-scale run "$@"
