#!/usr/bin/env bash
# Renders the chart into the text that `kutter manifests` prints, with marks where its flags go. The hooks stay
# out (kubectl would run them), and so do the CRDs, which the program holds already.
set -euo pipefail
cd "$(dirname "$0")"

helm() {
  local directory
  for directory in "${KUBEBUILDER_ASSETS:-}" ../tests/cluster/bin; do
    [[ -x $directory/helm ]] && { "$directory/helm" "$@"; return; }
  done
  # As the tests build it, so that nothing is compiled twice.
  CGO_ENABLED=0 go -C ../tests/cluster run -trimpath helm.sh/helm/v3/cmd/helm "$@"
}

# The version is named because a Helm that was built without one takes itself for an ancient Kubernetes'.
helm template kutter "$PWD/kutter" --kube-version 1.34.0 --no-hooks --set crds.managed=false \
  --set installation.namespace=__NAMESPACE__ --set-string manager.replicas=__REPLICAS__ \
  --set manager.image.repository=__IMAGE__,manager.image.tag=tag |
  sed -e '/^# Source:/d' -e 's/__IMAGE__:tag/__IMAGE__/' \
    -e 's|app.kubernetes.io/managed-by: Helm|app.kubernetes.io/managed-by: kubectl|' > manifests.yaml.new
cmp -s manifests.yaml.new manifests.yaml || cp manifests.yaml.new manifests.yaml
rm manifests.yaml.new
