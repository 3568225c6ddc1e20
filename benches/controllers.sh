#!/usr/bin/env bash
# Builds the program and the bench, each by itself so that neither lends the other features, and
# measures a controller. Arguments go to the bench: ./benches/controllers.sh cloneset --pods 100,1000
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}/$host/release
cargo build --release --package kutter
cargo build --release --package kutter-benches --bin bench-controllers
exec "$target/bench-controllers" --kutter "$target/kutter" "$@"
