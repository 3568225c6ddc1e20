//! Admission over files, and the reviews that tests send.

use std::sync::Arc;
use std::time::Duration;

use admission::world::{Watched, World};
use api::features::FeatureGates;
use cluster::reservation::Reservations;
use informers::files::Objects;
use informers::{Index, Lookup};
use kinds::podunavailablebudget::reserve::Rules;
use serde_json::{Value, json};
use values::moment::Moment;
use webhooks::{Admission, AdmissionFlags, Deadline, Endpoint, Metrics, ProtectionLog};

/// A Node, a Pod that runs there, and one whose Node is gone.
pub(crate) const CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: u}
spec: {nodeName: node-1, containers: [{name: main}]}
status: {phase: Running, containerStatuses: [{name: main, containerID: "c://1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: lost, namespace: shop, uid: u}
spec: {nodeName: gone, containers: [{name: main}]}
status: {phase: Running}
"#;

pub(crate) const PROTECTED: &str =
    "ResourcesDeletionProtection=true,DeletionProtectionForCRDCascadingGate=true";

/// Admission over an empty world; Pods, claims and custom resources are those of `manifests`.
pub(crate) fn admission(flags: &str, manifests: &str) -> Admission {
    let mut objects = Objects::default();
    if !manifests.is_empty() {
        objects.parse("test", manifests).unwrap();
    }
    with_lookup(flags, Lookup::files(objects))
}

pub(crate) fn with_lookup(flags: &str, lookup: Lookup) -> Admission {
    with_index(flags, Index::fixed(World::new(api::DEFAULT_NAMESPACE)), lookup)
}

/// Admission over these SidecarSets; what can't be read is left out, as the watches do.
pub(crate) fn with_sidecar_sets(flags: &str, sidecar_sets: &[Value]) -> Admission {
    let mut world = World::new(api::DEFAULT_NAMESPACE);
    for sidecar_set in sidecar_sets {
        drop(world.apply(Watched::SidecarSet, &sidecar_set.to_string()));
    }
    with_index(flags, Index::fixed(world), Lookup::files(Objects::default()))
}

pub(crate) fn with_index(flags: &str, index: Index, lookup: Lookup) -> Admission {
    let gates = FeatureGates::parse(flags, "").unwrap();
    Admission {
        spreads: Reservations::new(None, kinds::workloadspread::slots::Slots),
        budgets: Reservations::new(None, Rules::new(&gates)),
        refusals: None,
        gates,
        index: Arc::new(index),
        lookup,
        flags: AdmissionFlags::default(),
        metrics: Metrics::new().unwrap(),
        protection_log: ProtectionLog::disabled(),
        clock: Arc::new(|| Moment { now: jiff::Timestamp::UNIX_EPOCH, seed: 1 }),
    }
}

/// A `v1` review of `request`.
pub(crate) fn review(request: &Value) -> Vec<u8> {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
        .to_string()
        .into_bytes()
}

/// A request by alice to delete `old_object` of `resource` in `version`.
pub(crate) fn delete(resource: &str, version: &str, old_object: &Value) -> Value {
    let kind = old_object["kind"].clone();
    json!({
        "uid": "7f2c9e4a-0001",
        "kind": {"group": "", "version": version, "kind": kind},
        "resource": {"group": "", "version": version, "resource": resource},
        "name": "",
        "operation": "DELETE",
        "userInfo": {"username": "alice", "groups": ["system:masters"]},
        "object": null,
        "oldObject": old_object,
        "dryRun": false,
        "options": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
    })
}

/// An object with the deletion protection label.
pub(crate) fn labelled(kind: &str, namespace: &str, name: &str, value: &str) -> Value {
    let mut metadata = json!({"name": name, "labels": {"policy.kruise.io/delete-protection": value}});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
}

/// A request to create a Pod with `containers` containers.
pub(crate) fn create_pod(containers: usize) -> Value {
    let containers: Vec<Value> = (0..containers)
        .map(|index| json!({"name": format!("c{index}"), "image": "registry/app:1"}))
        .collect();
    json!({
        "uid": "7f2c9e4a-0002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "web",
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"generateName": "shop-", "namespace": "web", "labels": {"app": "shop"}},
            "spec": {"containers": containers},
        },
        "oldObject": null,
        "dryRun": false,
    })
}

/// A SidecarSet that meets the Pods of [`create_pod`].
pub(crate) fn sidecar_set() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "logs"},
        "spec": {
            "selector": {"matchLabels": {"app": "shop"}},
            "containers": [{"name": "logs", "image": "logs:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": "10%"},
        },
    })
}

/// A request to create `object`, a SidecarSet of v1beta1.
pub(crate) fn create_sidecar_set(object: &Value) -> Value {
    json!({
        "uid": "7f2c9e4a-0003",
        "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "SidecarSet"},
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "sidecarsets"},
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": object,
        "oldObject": null,
        "dryRun": false,
    })
}

/// The answer of `admission` on `path`.
pub(crate) async fn ask(admission: &Admission, path: &str, request: &Value) -> Value {
    ask_within(admission, path, request, Duration::from_secs(5)).await
}

/// The answer of `admission` on `path` to a review that has so much time.
pub(crate) async fn ask_within(admission: &Admission, path: &str, request: &Value, time: Duration) -> Value {
    let endpoint = Endpoint::from_path(path).unwrap();
    let reply = admission.admit(endpoint, &review(request), Deadline::after(time)).await;
    let answer: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(answer["response"]["uid"], request["uid"]);
    answer["response"].clone()
}
