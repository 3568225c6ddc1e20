#!/usr/bin/env bash
# Copies the CRDs into the chart: Helm reads only files below the chart's own folder.
set -euo pipefail
cd "$(dirname "$0")"
rm -rf kutter/files/crds
mkdir -p kutter/files/crds
cp ../api/crds/*.yaml kutter/files/crds/
