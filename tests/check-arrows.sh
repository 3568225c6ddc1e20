#!/usr/bin/env bash
# What Cargo does not refuse by itself: decisions that do I/O, and an access to the API server that knows rules of the
# product. Inside a crate modules form no circle, and kinds don't use each other: see tests/arrows.
set -euo pipefail
cd "$(dirname "$0")/.."

pure=$(sed -n 's/^name = "\(kutter-.*\)"/\1/p' planner/*/Cargo.toml)
failed=0
for crate in $pure kutter-cluster; do
  case $crate in
    kutter-cluster) refused='^kutter-(?!(cluster|api|values)$)' ;;
    *) refused='^(tokio|kube|kube-client|hyper)$' ;;
  esac
  if used=$(cargo tree --locked -e normal -p "$crate" --prefix none --format '{p}' | awk '{print $1}' | sort -u | grep -P "$refused"); then
    echo "$crate must not use" $used
    failed=1
  fi
done
cargo run --locked --quiet -p kutter-arrows -- planner/{values,pod,kinds,admission,agent,plugin,rollouts,simulator} kubectl-kruise webhooks informers controllers cluster certs node node/cri || failed=1
[[ $failed == 0 ]] && echo "decisions do no I/O, and modules form no circle"
exit $failed
