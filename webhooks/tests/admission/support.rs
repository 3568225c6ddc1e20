//! Admission over files, and the reviews that tests send.

use std::sync::Arc;

use api::features::FeatureGates;
use cluster::files::Objects;
use cluster::{Index, Lookup};
use planner::moment::Moment;
use planner::world::World;
use serde_json::{Value, json};
use webhooks::{Admission, Metrics, ProtectionLog, Settings};

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
    Admission {
        gates: FeatureGates::parse(flags, "").unwrap(),
        index: Arc::new(Index::fixed(World::new(api::DEFAULT_NAMESPACE))),
        lookup,
        settings: Settings::default(),
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
