#!/usr/bin/env bash
# Builds the program and the bench, each by itself so that neither lends the other features, and
# measures. Arguments go to the bench: ./benches/admission.sh --only injected --rounds 3
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}/$host/release
cargo build --release --package kutter
cargo build --release --package kutter-benches
exec "$target/bench-admission" run --kutter "$target/kutter" "$@"
