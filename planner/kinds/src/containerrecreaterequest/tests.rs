//! The rules of requests.

mod admission;
mod course;
mod step;

use api::kinds::containerrecreaterequest::ContainerRecreateRequest;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use pod::observed::ObservedPod;

const CREATED: &str = "2026-01-01T00:00:00Z";
const FINALIZER: &str = "crr.apps.kruise.io/unready-acquired";
const ACTIVE: &str = "crr.apps.kruise.io/active";

/// So many seconds after the creation of the request.
fn at(seconds: i64) -> Timestamp {
    CREATED.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// A request for containers `a` and `b` of Pod `web`, with these members of its spec, as admission leaves it.
fn request(spec: &Value, status: Value) -> Value {
    let mut request = json!({
        "metadata": {"name": "crr", "namespace": "shop", "uid": "r", "resourceVersion": "7",
            "creationTimestamp": CREATED,
            "labels": {"crr.apps.kruise.io/pod-uid": "u", "crr.apps.kruise.io/node-name": "n", ACTIVE: "true"}},
        "spec": {"podName": "web", "containers": [{"name": "a"}, {"name": "b"}]},
    });
    json_patch::merge(&mut request["spec"], spec);
    request["status"] = status;
    request
}

fn read(request: &Value) -> ContainerRecreateRequest {
    serde_json::from_value(request.clone()).unwrap()
}

/// Pod `web` whose containers were started so many seconds after the request was made.
fn pod(started: [i64; 2], gated: bool) -> Value {
    let statuses: Vec<Value> = ["a", "b"]
        .iter()
        .zip(started)
        .map(|(name, started)| {
            json!({"name": name, "ready": true, "restartCount": 1, "containerID": format!("containerd://{name}"),
                "state": {"running": {"startedAt": at(started).to_string()}}})
        })
        .collect();
    let gates = if gated { json!([{"conditionType": "KruisePodReady"}]) } else { json!([]) };
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
        "spec": {"nodeName": "n", "readinessGates": gates, "containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running", "containerStatuses": statuses, "conditions": [
            {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}]},
    })
}

fn observed(pod: &Value) -> ObservedPod {
    ObservedPod::read(&pod.to_string()).unwrap()
}
