#!/usr/bin/env bash
# Everything that must hold: unit and property tests of every room, the real program on real API servers,
# and (as root) real nodes with real containers. Ends with the totals.
set -uo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }
results=$(mktemp)
trap 'rm -f "$results"' EXIT

# Always the whole workspace: another selection would mean other features, and build everything again.
say "building the program and its tests"
cargo test --workspace --lib --bins --tests --no-run || exit 1

say "preparing Kubernetes (built once from Go modules, or taken from KUBEBUILDER_ASSETS)"
host=$(rustc -vV | sed -n 's/^host: //p')
"${CARGO_TARGET_DIR:-target}/$host/debug/testbed" prepare || exit 1

[[ $EUID -eq 0 ]] || say "real nodes need root: their tests pass without doing anything"
say "unit, property, API server and real-node tests"
# How many courses of CloneSets are simulated: some minutes' worth.
export KUTTER_SIMULATION_HISTORIES="${KUTTER_SIMULATION_HISTORIES:-100000}"
cargo test --workspace --lib --bins --tests --no-fail-fast 2>&1 | tee "$results"
status=${PIPESTATUS[0]}

awk '/^test result:/ { passed += $4; failed += $6 } END { printf "\n%d passed, %d failed\n", passed, failed }' "$results"
exit "$status"
