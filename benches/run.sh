#!/usr/bin/env bash
# Builds the program and a bench, each by itself so that neither lends the other features, and runs the bench, which takes
# the path of the program behind the arguments: ./benches/run.sh BENCH ARGUMENT...
set -euo pipefail
cd "$(dirname "$0")/.."
bench=$1
shift
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}/$host/release
cargo build --release --package kutter
cargo build --release --package kutter-benches --bin "$bench"
exec "$target/$bench" "$@" --kutter "$target/kutter"
