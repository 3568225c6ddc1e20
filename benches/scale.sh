#!/usr/bin/env bash
# Builds the program and the bench, each by itself so that neither lends the other features, and
# measures at the size of users. Arguments go to the bench: ./benches/scale.sh --scale 0.01
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}/$host/release
cargo build --release --package kutter
cargo build --release --package kutter-benches --bin bench-scale
exec "$target/bench-scale" run --kutter "$target/kutter" "$@"
