#!/usr/bin/env bash
# Fails where a generated file is not what its command makes.
set -euo pipefail
cd "$(dirname "$0")/.."

files="planner/values/src/canonical/table.rs charts/kutter/files/crds charts/manifests.yaml"
before=$(cat $(git ls-files $files) | sha256sum)
./tests/generate.sh
after=$(cat $(git ls-files $files) | sha256sum)
if [[ "$before" != "$after" ]] || [[ -n "$(git ls-files --others --exclude-standard $files)" ]]; then
  echo "generated files are not current: run 'make generate' and commit what it changes"
  exit 1
fi
echo "generated files are current"
