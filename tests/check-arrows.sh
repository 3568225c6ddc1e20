#!/usr/bin/env bash
# Dependencies between the crates go one way:
# src -> webhooks, controllers, certs, node -> cluster -> planner -> api, and node -> cri. Crates on one floor don't know each other.
# Inside a crate modules form no circle, and the floors of the planner go one way too: see tests/arrows.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A allowed=(
  [kutter-api]=""
  [kutter-planner]="kutter-api"
  [kutter-cluster]="kutter-api kutter-planner"
  [kutter-webhooks]="kutter-api kutter-planner kutter-cluster"
  [kutter-controllers]="kutter-api kutter-planner kutter-cluster"
  [kutter-certs]="kutter-api kutter-planner kutter-cluster"
  [kutter-node]="kutter-api kutter-planner kutter-cluster kutter-cri"
  [kutter-cri]=""
)
pure="kutter-api kutter-planner"
failed=0
for room in "${!allowed[@]}"; do
  for known in $(cargo tree --offline -e normal -p "$room" --prefix none --format '{p}' | awk '{print $1}' | sort -u); do
    case "$known" in
      "$room") ;;
      kutter-*)
        [[ " ${allowed[$room]} " == *" $known "* ]] || { echo "$room must not know $known"; failed=1; } ;;
      tokio | kube | kube-client | hyper)
        [[ " $pure " == *" $room "* ]] && { echo "$room is pure and must not know $known"; failed=1; } ;;
    esac
  done
done
cargo run --offline --quiet -p kutter-arrows -- planner webhooks controllers cluster certs node node/cri || failed=1
[[ $failed == 0 ]] && echo "the rooms know only those below them"
exit $failed
