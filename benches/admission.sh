#!/usr/bin/env bash
# Measures the admission server. Arguments go to the bench: ./benches/admission.sh --only injected --rounds 3
exec "$(dirname "$0")/run.sh" bench-admission run "$@"
