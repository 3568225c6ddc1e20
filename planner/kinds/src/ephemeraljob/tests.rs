//! The rules of EphemeralJobs.

mod handing_out;
mod step;
mod validation;

use std::sync::Arc;

use api::kinds::ephemeraljob::EphemeralJob;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use pod::observed::ObservedPod;

const FINALIZER: &str = "apps.kruise.io/ephemeralcontainers-cleanup";

/// So many seconds after the job was started.
fn at(seconds: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// A job that adds the container `debug`, with these members of its spec.
fn job(spec: &Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "job", "namespace": "shop", "uid": "j", "resourceVersion": "7", "finalizers": [FINALIZER]},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}},
        "status": {},
    });
    json_patch::merge(&mut job["spec"], spec);
    job
}

fn read(job: &Value) -> EphemeralJob {
    // By way of the text: raw parts are texts.
    serde_json::from_str(&job.to_string()).unwrap()
}

/// A Pod in which the job is this far: `none`, `added`, `waiting`, `running`, an exit code, or another reason to wait.
fn pod(name: &str, created: i64, state: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "labels": {"app": "web"},
            "creationTimestamp": at(created).to_string()},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    });
    if state != "none" {
        pod["spec"]["ephemeralContainers"] =
            json!([{"name": "debug", "env": [{"name": "KRUISE_EJOB_ID", "value": "j"}]}]);
        let state = match (state, state.parse::<i32>()) {
            ("added", _) => json!({}),
            ("waiting", _) => json!({"waiting": {"reason": "ContainerCreating"}}),
            ("running", _) => json!({"running": {"startedAt": at(0).to_string()}}),
            (_, Ok(code)) => json!({"terminated": {"exitCode": code}}),
            (reason, _) => json!({"waiting": {"reason": reason}}),
        };
        pod["status"]["ephemeralContainerStatuses"] = json!([{"name": "debug", "state": state}]);
    }
    pod
}

fn observed(pods: &[Value]) -> Vec<Arc<ObservedPod>> {
    pods.iter().map(|pod| Arc::new(ObservedPod::read(&pod.to_string()).unwrap())).collect()
}
