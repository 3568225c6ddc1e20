#!/usr/bin/env bash
# A real Kubernetes on this machine with Kutter in it, shown at work with plain kubectl.
#   tests/demo.sh DIRECTORY        stays until Ctrl-C; with CI=true it ends after the checks
#   tests/demo.sh DIRECTORY down   ends what an earlier run left
# KUTTER_PROGRAMS is a directory with the programs, for who has built them already.
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${1:?usage: tests/demo.sh DIRECTORY [down]}
built=${KUTTER_PROGRAMS:-${CARGO_TARGET_DIR:-target}/$(rustc -vV | sed -n 's/^host: //p')/demo}
log=$directory.log

say() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }
fail() { printf '\ndemo: %s\n' "$*" >&2; exit 1; }
has() { grep -qF -- "$2" <<<"$1" || fail "expected to see: $2"; }

build() { [[ -n ${KUTTER_PROGRAMS:-} ]] || cargo build --profile demo "$@"; }

if [[ ${2:-} == down ]]; then
  build --quiet -p kutter-kit --bin testbed
  exec "$built/testbed" down --dir "$directory"
fi
[[ $EUID -eq 0 ]] || fail "real nodes need root: run it with sudo, or as root"

say "building the program and the cluster's tools (minutes the first time)"
build -p kutter -p kutter-kit -p kutter-exit-hook --bins
"$built/testbed" prepare

say "starting Kubernetes with 2 nodes in $directory"
mkdir -p "$(dirname "$directory")"
: >"$log"
"$built/testbed" up --nodes 2 --dir "$directory" >"$log" 2>&1 &
testbed=$!
end() {
  trap - EXIT INT TERM
  say "taking the cluster down"
  kill "$testbed" 2>/dev/null || true
  wait "$testbed" || true
}
trap end EXIT
trap 'exit 130' INT TERM
until grep -q '^export ' "$log"; do
  kill -0 "$testbed" 2>/dev/null || { cat "$log"; fail "the cluster does not start"; }
  sleep 0.2
done
eval "$(grep '^export ' "$log")"
show kubectl get nodes

say "installing the chart: two replicas, from an image with nothing but the program in it"
"$built/testbed" image --dir "$directory" --ref kutter/manager:demo --binary "$built/kutter" \
  --exit-hook "$built/kruise-exit-hook"
show helm install kutter charts/kutter --wait --timeout 4m \
  --set manager.image.tag=demo --set featureGates=ResourcesDeletionProtection=true || {
  show kubectl get pods --namespace kruise-system --output wide
  show kubectl get events --namespace kruise-system --sort-by .lastTimestamp
  show kubectl logs --namespace kruise-system --selector control-plane=controller-manager --tail 20
  fail "the chart can't be installed: the Pods' events say why"
}
show kubectl get pods --namespace kruise-system --output wide
entries='{range .items[*].webhooks[*]}{.name}{"\n"}{end}'
configurations=mutatingwebhookconfigurations,validatingwebhookconfigurations
# The server adds its entries once it has been reached through its Service.
for _ in {1..150}; do
  registered=$(kubectl get "$configurations" --output jsonpath="$entries")
  [[ $registered == *mpod.kb.io* && $registered == *vnamespace.kb.io* ]] && break
  sleep 0.2
done
has "$registered" mpod.kb.io
has "$registered" vnamespace.kb.io

say "a SidecarSet, and a Deployment that knows nothing of it"
kubectl create namespace shop
show kubectl apply -f tests/demo/sidecarset.yaml
# Admission learns of it a moment later.
for _ in {1..300}; do
  trial=$(kubectl apply --dry-run=server --output yaml -f tests/demo/pod.yaml 2>&1) || true
  [[ $trial == *"name: shipper"* ]] && break
  sleep 0.2
done
has "$trial" "name: shipper"
show kubectl apply -f tests/demo/deployment.yaml
show kubectl rollout status deployment/web --namespace shop --timeout=120s
columns=NAME:.metadata.name,PHASE:.status.phase,CONTAINERS:.spec.containers[*].name
columns+=,RUNNING:.status.containerStatuses[*].state.running.startedAt
columns+=,SIDECARSETS:.metadata.annotations.kruise\\.io/sidecarset-injected-list
pods=$(show kubectl get pods --namespace shop --output custom-columns="$columns")
echo "$pods"
[[ $(grep -c 'Running *web,shipper .*log-shipper$' <<<"$pods") == 2 ]] || fail "two injected Pods were expected"

say "a server-side dry run shows what a Pod would become"
trial=$(kubectl apply --dry-run=server --output yaml -f tests/demo/pod.yaml)
printf '$ kubectl apply --dry-run=server --output yaml -f tests/demo/pod.yaml   (a part of it)\n'
sed -n '/^  containers:/,/^  [a-bd-z]/p' <<<"$trial" | sed '$d'
has "$trial" "name: shipper"
! kubectl get pod trial --namespace shop >/dev/null 2>&1 || fail "a dry run has created a Pod"

say "the same without a cluster"
review=$(show "$built/kutter" review -f tests/demo/pod.yaml --objects tests/demo/sidecarset.yaml --output diff)
echo "$review"
has "$review" "+  - name: shipper"

say "the containers of a Pod end in an order: main, then log, then proxy"
show kubectl apply -f tests/demo/in-order.yaml
show kubectl wait pod/in-order --namespace shop --for=condition=Ready --timeout=120s
said=$(mktemp)
kubectl logs in-order --namespace shop --all-containers --prefix --timestamps --follow >"$said" &
logs=$!
# A Pod that is deleted before its logs are followed loses its last lines.
for _ in {1..300}; do
  starts=$(grep -c ' starts$' "$said") || true
  [[ $starts == 3 ]] && break
  sleep 0.2
done
[[ $starts == 3 ]] || fail "the logs of three containers were expected: $(cat "$said")"
show kubectl delete pod in-order --namespace shop
wait "$logs" || true
ends=$(grep ' ends$' "$said" | sort -k2)
rm "$said"
echo "$ends"
[[ $(sed -E 's|.*/([a-z]+)].*|\1|' <<<"$ends" | xargs) == "main log proxy" ]] || fail "they ended in another order"

say "a label keeps objects from being deleted"
refuse() {
  local answer
  printf '$ %s\n' "$*"
  if answer=$("$@" 2>&1); then fail "this had to be refused: $answer"; fi
  echo "$answer"
  has "$answer" "forbidden by ResourcesProtectionDeletion"
}
refuse kubectl delete deployment web --namespace shop
show kubectl label namespace shop policy.kruise.io/delete-protection=Cascading
refuse kubectl delete namespace shop
kubectl get deployment web --namespace shop >/dev/null || fail "the Deployment is gone"

say "all checks passed"
[[ ${CI:-} != true ]] || exit 0
cat <<TEXT

The cluster stays until Ctrl-C (or: make demo-down). From another terminal:

  export KUBECONFIG=$KUBECONFIG
  export PATH=${PATH%%:*}:\$PATH
  kubectl get pods --all-namespaces

TEXT
wait "$testbed"
