#!/usr/bin/env bash
# An upgrade from the program of another commit to this one and the way back, replica by replica, during rollouts:
# ./tests/upgrade.sh [COMMIT], by default the newest tag. target/upgrade keeps its sources and what is built of them.
set -euo pipefail
cd "$(dirname "$0")/.."

from=${1:-$(git describe --tags --abbrev=0 2>/dev/null)} || {
  echo "there is no tag yet: name the commit to upgrade from, as in \`make test-upgrade FROM=HEAD~20\`" >&2
  exit 1
}
commit=$(git rev-parse --verify --quiet "$from^{commit}") || {
  echo "there is no commit $from" >&2
  exit 1
}
host=$(rustc -vV | sed -n 's/^host: //p')
directory=$(realpath -m "${CARGO_TARGET_DIR:-target}")/upgrade
sources=$directory/sources
# What is left of one whose directory is gone would be in the way.
git worktree prune
[[ -e $sources ]] || git worktree add --quiet --detach "$sources" "$commit"
git -C "$sources" checkout --quiet --force --detach "$commit"
(cd "$sources" && CARGO_TARGET_DIR=$directory/build cargo build --package kutter)
export KUTTER_PREVIOUS=$directory/build/$host/debug/kutter
echo "from $("$KUTTER_PREVIOUS" --version) of $(git log -1 --format='%h, %cs, %s' "$commit")"
exec cargo test --workspace --test e2e upgrade::replicas_of_two_releases -- --ignored --nocapture
