#!/usr/bin/env bash
# Everything that must hold. Builds first, then runs: unit and property tests of every room, the real
# program on real API servers, and (as root) real nodes with real containers. Ends with the totals.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }
results=$(mktemp)
trap 'rm -f "$results"' EXIT

say "building the program and its tests"
cargo test --workspace --no-run

say "preparing Kubernetes (built once from Go modules, or taken from KUBEBUILDER_ASSETS)"
cargo run -q -p kutter-kit --bin testbed -- prepare

say "unit, property and harness tests of every room"
cargo test --workspace --exclude kutter --lib --bins --tests 2>&1 | tee -a "$results"
cargo test -p kutter --bins 2>&1 | tee -a "$results"

say "the program on real API servers"
cargo test -p kutter --test e2e 2>&1 | tee -a "$results"

if [[ $EUID -eq 0 ]]; then
  say "real nodes with real containers"
  cargo test -p kutter --test nodes 2>&1 | tee -a "$results"
else
  say "real nodes need root: their tests are not run"
fi

awk '/^test result:/ { passed += $4; failed += $6 } END { printf "\n%d passed, %d failed\n", passed, failed }' "$results"
