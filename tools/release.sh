#!/usr/bin/env bash
# Makes everything that a release consists of, in target/release-VERSION:
#   tools/release.sh VERSION
# Linux, amd64 or arm64, with a C compiler for the other one (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross, or
# gcc-x86-64-linux-gnu libc6-dev-amd64-cross), qemu-user-static, by which its programs are tried, and cargo-cyclonedx (cargo
# install --locked cargo-cyclonedx). The same commit gives the same bytes, on any machine with the same compilers.
#   KUTTER_RELEASE_URL  where the files will be found; the Krew manifest names it
#   KUTTER_SIGN         a command that is given the file SHA256SUMS, such as "cosign sign-blob --bundle SHA256SUMS.sigstore"
#   KUTTER_PROFILE      another profile than release, to try this script out
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?usage: tools/release.sh VERSION}
profile=${KUTTER_PROFILE:-release}
url=${KUTTER_RELEASE_URL:-https://github.com/kutter/kutter/releases/download/v$version}
out=$PWD/target/release-$version
say() { printf '== %s\n' "$*"; }
fail() { printf 'release: %s\n' "$*" >&2; exit 1; }

[[ -z $(git status --porcelain) ]] || fail "there are changes that are not committed"
grep -qx "version = \"$version\"" Cargo.toml || fail "Cargo.toml has another version"
grep -qx "version: $version" charts/kutter/Chart.yaml && grep -qx "appVersion: $version" charts/kutter/Chart.yaml ||
  fail "charts/kutter/Chart.yaml has another version"
command -v cargo-cyclonedx >/dev/null || fail "cargo-cyclonedx is missing: cargo install --locked cargo-cyclonedx"

umask 022
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# archive FILE FOLDER NAME...: an archive that depends on nothing but what is in it.
archive() {
  local file=$1 folder=$2
  shift 2
  tar --create --sort=name --format=ustar --mtime=@"$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u+rwX,go+rX,go-w --directory "$folder" "$@" | gzip --no-name -9 >"$file"
}

# Programs and messages name neither this folder nor that of the registry.
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
paths=("$PWD=/kutter")
for folder in "$registry"/*/; do paths+=("${folder%/}=/registry"); done
rust_flags=$(printf '"--remap-path-prefix=%s",' "${paths[@]}")
c_flags=$(printf -- '-ffile-prefix-map=%s ' "${paths[@]}")

declare -A machine=([amd64]=x86_64 [arm64]=aarch64)
for architecture in amd64 arm64; do
  cpu=${machine[$architecture]}
  target=$cpu-unknown-linux-gnu
  tried=()
  if [[ $(uname -m) != "$cpu" ]]; then
    command -v "$cpu-linux-gnu-gcc" >/dev/null || fail "$cpu-linux-gnu-gcc is missing"
    command -v "qemu-$cpu-static" >/dev/null || fail "qemu-$cpu-static is missing"
    rustup target list --installed | grep -qx "$target" || rustup target add "$target"
    upper=${target^^}
    export "CARGO_TARGET_${upper//-/_}_LINKER=$cpu-linux-gnu-gcc" "CC_${target//-/_}=$cpu-linux-gnu-gcc"
    tried=("qemu-$cpu-static")
  fi
  export "CFLAGS_${target//-/_}=$c_flags"
  say "building for $architecture"
  cargo build --locked --profile "$profile" --target "$target" --config "target.'cfg(unix)'.rustflags=[$rust_flags]" \
    -p kutter -p kubectl-kruise -p kutter-exit-hook --bins
  mkdir "$work/$architecture"
  cp "target/$target/$profile"/{kutter,kubectl-kruise,kruise-exit-hook} LICENSE NOTICE "$work/$architecture/"
  say "trying out the programs for $architecture"
  for program in "kutter --version" "kubectl-kruise version --client" "kruise-exit-hook version"; do
    "${tried[@]}" "$work/$architecture/"$program | tee "$work/said"
    grep -qF "$version" "$work/said" || fail "$program says another version"
  done
  "${tried[@]}" "$work/$architecture/kutter" review -f examples/sidecarset >/dev/null
  for program in kutter kubectl-kruise; do
    archive "$out/${program}_${version}_linux_$architecture.tar.gz" "$work/$architecture" "$program" LICENSE NOTICE
  done
done

say "making the image"
programs() { printf -- "--$1=%s " "amd64=$work/amd64/$2" "arm64=$work/arm64/$2"; }
digest=$(cargo run --locked --quiet --package kutter-kit --bin testbed -- image --oci "$work/image" \
  --ref "kutter/manager:$version" $(programs binary kutter) $(programs exit-hook kruise-exit-hook))
archive "$out/kutter_${version}_image.tar.gz" "$work/image" .

say "packing the chart"
cp -r charts/kutter "$work/chart"
sed -i "s|^    digest: \"\"|    digest: $digest|" "$work/chart/values.yaml"
grep -qF "digest: $digest" "$work/chart/values.yaml" || fail "the values of the chart have no digest"
mkdir "$work/packed" && mv "$work/chart" "$work/packed/kutter"
archive "$out/kutter-$version.tgz" "$work/packed" kutter

say "listing what the programs are made of"
mkdir "$work/source"
git archive HEAD | tar -x -C "$work/source"
(cd "$work/source" && cargo cyclonedx --quiet --format json --spec-version 1.5 --override-filename sbom \
  --target x86_64-unknown-linux-gnu)
sed "s|file://$work/source|file:///kutter|g" "$work/source/sbom.json" >"$out/kutter_$version.cdx.json"

say "describing the plugin for Krew"
{
  cat <<KREW
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: kruise
spec:
  version: v$version
  homepage: ${url%/releases/*}
  shortDescription: Work with workloads of OpenKruise and Kutter
  description: |
    Follows, pauses and takes back rollouts of CloneSets and the other kinds of apps.kruise.io, sets images, scales down by
    chosen Pods, restarts containers, and explains and simulates what a controller does.
  platforms:
KREW
  for architecture in amd64 arm64; do
    file=kubectl-kruise_${version}_linux_$architecture.tar.gz
    cat <<KREW
  - selector: {matchLabels: {os: linux, arch: $architecture}}
    uri: $url/$file
    sha256: $(sha256sum "$out/$file" | cut -d' ' -f1)
    bin: kubectl-kruise
KREW
  done
} >"$out/kruise.yaml"

cd "$out"
sha256sum -- * >SHA256SUMS
[[ -z ${KUTTER_SIGN:-} ]] || $KUTTER_SIGN SHA256SUMS
say "$out"
cat SHA256SUMS
