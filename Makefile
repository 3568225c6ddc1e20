# What people run. `make help` lists the words.
SHELL := /bin/bash
.DEFAULT_GOAL := help

host := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
target := $(or $(CARGO_TARGET_DIR),target)/$(host)
# Not target/demo, where Cargo puts what it builds by the profile of that name.
demo_directory ?= $(CURDIR)/target/demo-cluster

.PHONY: help demo demo-down test test-versions test-upgrade lint check format generate image release bench bench-admission bench-sidecarset bench-cloneset bench-statefulset bench-daemonset bench-uniteddeployment bench-budget bench-rollout bench-node bench-scale fuzz histories chaos

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## A real cluster on this machine, with Kutter installed and shown at work (Ctrl-C ends it)
	./tests/demo.sh "$(demo_directory)"

demo-down: ## Ends what `make demo` left
	./tests/demo.sh "$(demo_directory)" down

test: ## Everything that must hold: unit, property, API server and real-node tests
	./tests/run.sh

test-versions: ## What matters, on every minor version of Kubernetes that is supported; VERSIONS="v1.30.14 v1.36.3" chooses
	./tests/versions.sh $(VERSIONS)

test-upgrade: ## An upgrade and the way back, replica by replica, from the newest tag; FROM=COMMIT_OR_TAG chooses
	./tests/upgrade.sh $(FROM)

lint: ## Format, clippy, direction of dependencies, generated files, licences and known vulnerabilities
	cargo clippy --workspace --all-targets -- -D warnings
	$(MAKE) check

check: ## What `make lint` does, without clippy
	cargo fmt --all --check
	./tests/check-arrows.sh
	./tests/check-generated.sh
	./tests/check-dependencies.sh

format: ## Formats the code
	cargo fmt --all

generate: ## Makes the generated files anew
	./tests/generate.sh

image: ## The container image as an OCI layout in target/image
	cargo build --release -p kutter -p kutter-exit-hook
	cargo run -q -p kutter-kit --bin testbed -- image --oci target/image --binary $(target)/release/kutter \
		--exit-hook $(target)/release/kruise-exit-hook

release: ## Everything that a release consists of, in target/release-VERSION: make release VERSION=1.2.3
	./tools/release.sh $(VERSION)

bench: bench-admission bench-sidecarset bench-cloneset bench-statefulset bench-daemonset bench-uniteddeployment bench-budget bench-rollout bench-node bench-scale ## All benches
	cargo bench -p kutter-admission

bench-admission: ## Load bench of the admission server; prints `figure NAME VALUE UNIT goal GOAL`
	./benches/admission.sh

bench-sidecarset: ## Cost of rolling sidecars on fake nodes, and memory per Pod; prints figures in the same form
	./benches/controllers.sh sidecarset

bench-cloneset: ## Cost of creating, updating and recreating the Pods of a CloneSet on fake nodes; prints figures in the same form
	./benches/controllers.sh cloneset

bench-statefulset: ## Cost of creating the Pods of a StatefulSet, in order and in parallel, and of updating them in place
	./benches/controllers.sh statefulset

bench-daemonset: ## Cost of creating and updating the Pods of a DaemonSet on many fake nodes, and of their heartbeats
	./benches/controllers.sh daemonset

bench-uniteddeployment: ## Cost of a UnitedDeployment beside that of its workloads
	./benches/controllers.sh uniteddeployment

bench-budget: ## Cost of budgets and WorkloadSpreads in reviews and on fake nodes; prints figures in the same form
	./benches/admission.sh --only unbudgeted
	./benches/controllers.sh budget
	./benches/controllers.sh spread

bench-rollout: ## Calls and CPU time of releases beside plain updates, and what Rollouts at rest cost
	./benches/controllers.sh rollout

bench-node: ## Cost of the agent of a node, and of handing images to 1,000 fake nodes; prints figures in the same form
	./benches/controllers.sh node

bench-scale: ## Memory, start and cost of the whole among 5,000 nodes and 150,000 Pods in memory, and a tenth of that at a real API server
	./benches/scale.sh

fuzz: ## A longer run of the property tests over the whole admission path
	PROPTEST_CASES=100000 cargo test --release -p kutter-webhooks

histories: ## Random histories of workloads against the running program, 1,000 changes and more; shortens one that goes wrong
	KUTTER_HISTORY_CHANGES=$${KUTTER_HISTORY_CHANGES:-1000} cargo test --workspace --test e2e histories::random -- --nocapture

chaos: ## The same while faults happen: replicas killed, the Lease stolen, connections cut, writes that fail, no API server
	KUTTER_HISTORY_CHANGES=$${KUTTER_HISTORY_CHANGES:-2000} cargo test --workspace --test e2e histories::they_lead -- --include-ignored --nocapture
