//! Budgets and Pods to test with.

use std::sync::Arc;

use api::features::FeatureGates;
use api::kinds::podunavailablebudget::{PodUnavailableBudget, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::podunavailablebudget::budget::Budget;
use crate::podunavailablebudget::record::record;
use pod::observed::ObservedPod;

/// The time of all tests.
pub(super) const NOW: &str = "2026-11-22T10:00:00Z";

pub(super) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// So many seconds ago, as objects write it.
pub(super) fn ago(seconds: i64) -> String {
    values::moment::rfc3339(now() - SignedDuration::from_secs(seconds))
}

/// The same of an entry of a Pod, whose UID is its name.
pub(super) fn entry(pod: &str, seconds: i64) -> String {
    let mut status = Status::default();
    record(&mut status, pod, pod, true, 0, now() - SignedDuration::from_secs(seconds));
    status.disrupted_pods.remove(pod).unwrap().0
}

pub(super) fn gates(flags: &str) -> FeatureGates {
    FeatureGates::parse(flags, "").unwrap()
}

pub(super) fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// Budget `pub` for Pods `app=web`, of which one may be unavailable; `over` is merged into it.
pub(super) fn budget_json(over: &Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "pub", "namespace": "shop", "uid": "b", "resourceVersion": "7", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
    });
    merge(&mut budget, over);
    budget
}

pub(super) fn stored(over: &Value) -> PodUnavailableBudget {
    serde_json::from_value(budget_json(over)).unwrap()
}

pub(super) fn known(over: &Value) -> Budget {
    Budget::read(&budget_json(over).to_string()).unwrap()
}

/// A running, ready Pod `app=web` of CloneSet `web`, created an hour ago; `over` is merged into it.
pub(super) fn pod_json(name: &str, over: &Value) -> Value {
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "w",
        "controller": true});
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "resourceVersion": "1",
            "creationTimestamp": ago(3600), "labels": {"app": "web"}, "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    merge(&mut pod, over);
    pod
}

pub(super) fn pod(name: &str, over: &Value) -> Arc<ObservedPod> {
    Arc::new(ObservedPod::read(&pod_json(name, over).to_string()).unwrap())
}

/// Pods `web-0`, `web-1`, ...
pub(super) fn pods(count: usize) -> Vec<Arc<ObservedPod>> {
    (0..count).map(|number| pod(&format!("web-{number}"), &json!({}))).collect()
}
