#!/usr/bin/env bash
# Makes the generated files: the table of Kubernetes' Go types, the chart's copy of the CRDs, and the rendered
# chart that `kutter manifests` prints.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p target
(cd tools/gotypes && go run .) > target/table.rs
rustfmt --edition 2024 --config-path rustfmt.toml target/table.rs
# What is as it was stays untouched: everything that is compiled from it would be compiled again.
cmp -s target/table.rs planner/values/src/canonical/table.rs || mv target/table.rs planner/values/src/canonical/table.rs
./charts/copy-crds.sh
./charts/render-manifests.sh
