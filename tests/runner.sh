#!/usr/bin/env bash
# Runs a test program for tests/run.sh, if it belongs to the lane KUTTER_TEST_LANE: `nodes` needs real
# nodes, of which there is one cluster at a time, `servers` API servers, `computing` nothing but time.
program=$1
cores=$(nproc)
case ${program##*/} in
  # Those that share the cluster wait for its containers most of the time.
  nodes-*) lane=nodes threads=$((2 * cores)) priority=0 ;;
  # These wait for others most of the time.
  e2e-* | node-* | publish-* | api_server-* | fake_nodes-*) lane=servers threads=$((cores + 2)) priority=0 ;;
  *) lane=computing threads=$cores priority=10 ;;
esac
[[ $lane == "$KUTTER_TEST_LANE" ]] || exit 0
# The time of each test is shown by unstable options, which this variable allows.
export RUSTC_BOOTSTRAP=1
exec nice -n "$priority" "$@" --test-threads "$threads" -Z unstable-options --report-time
