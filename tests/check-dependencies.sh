#!/usr/bin/env bash
# Licences, bans, sources and known vulnerabilities of the dependencies, with cargo-deny. Where it is absent it is built
# from its crate, which takes minutes: only where the dependencies or the rules differ from what was checked last.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
checked=tests/dependencies.sha256
if ! cargo deny --version >/dev/null 2>&1; then
  if sha256sum --check --status "$checked"; then
    echo "the dependencies are those that were checked last"
    exit
  fi
  echo "installing cargo-deny $version"
  toolchain=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
  # Not optimised: that takes a third of the time. Elsewhere: our own flags would build it for a target.
  (cd / && RUSTUP_TOOLCHAIN=$toolchain cargo install --quiet cargo-deny --version "$version" --locked --debug)
fi
cargo deny --locked check licenses bans sources
if cargo deny fetch db >/dev/null 2>&1; then
  cargo deny --locked check advisories
else
  echo "the database of advisories can't be reached: known vulnerabilities are not checked"
fi
sha256sum Cargo.lock deny.toml >"$checked"
