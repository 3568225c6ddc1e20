#!/usr/bin/env bash
# Dependencies between the crates go one way:
# src -> webhooks, controllers, certs, node -> cluster -> planner/* -> api, and node -> cri.
# Inside a crate modules form no circle, and kinds don't use each other: see tests/arrows.
set -euo pipefail
cd "$(dirname "$0")/.."

kinds="kutter-api kutter-values kutter-pod kutter-kinds"
declare -A allowed=(
  [kutter-api]=""
  [kutter-values]="kutter-api"
  [kutter-pod]="kutter-api kutter-values"
  [kutter-kinds]="kutter-api kutter-values kutter-pod"
  [kutter-admission]="$kinds"
  [kutter-agent]="$kinds"
  [kutter-plugin]="$kinds"
  [kutter-simulator]="$kinds"
  [kutter-cluster]="$kinds kutter-admission"
  [kutter-webhooks]="$kinds kutter-admission kutter-agent kutter-cluster"
  [kutter-controllers]="$kinds kutter-admission kutter-cluster"
  [kutter-certs]="$kinds kutter-admission kutter-cluster"
  [kutter-node]="$kinds kutter-admission kutter-agent kutter-cluster kutter-cri"
  [kutter-cri]=""
)
pure="$kinds kutter-admission kutter-agent kutter-plugin kutter-simulator"
failed=0
for crate in "${!allowed[@]}"; do
  for known in $(cargo tree --offline -e normal -p "$crate" --prefix none --format '{p}' | awk '{print $1}' | sort -u); do
    case "$known" in
      "$crate") ;;
      kutter-*)
        [[ " ${allowed[$crate]} " == *" $known "* ]] || { echo "$crate must not use $known"; failed=1; } ;;
      tokio | kube | kube-client | hyper)
        [[ " $pure " == *" $crate "* ]] && { echo "$crate is pure and must not use $known"; failed=1; } ;;
    esac
  done
done
cargo run --offline --quiet -p kutter-arrows -- planner/{values,pod,kinds,admission,agent,plugin,simulator} webhooks controllers cluster certs node node/cri || failed=1
[[ $failed == 0 ]] && echo "crates use only those below them"
exit $failed
