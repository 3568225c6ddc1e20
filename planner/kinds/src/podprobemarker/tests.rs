//! Markers, Pods and NodePodProbes as texts, as the controllers read them.

use std::sync::Arc;

use api::kinds::nodepodprobe::NodePodProbe;
use serde_json::{Value, json};

use super::marker::Marker;
use pod::observed::ObservedPod;

mod liveness;
mod node;
mod results;
mod trigger;
mod validation;

/// A marker of namespace `shop` for Pods labelled `app=web`.
fn marker(name: &str, probes: Value) -> Arc<Marker> {
    let mut object = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
            "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    });
    object["spec"]["probes"] = probes;
    Arc::new(Marker::read(&object.to_string()).unwrap())
}

/// A probe of container `main` that runs a command.
fn exec(name: &str) -> Value {
    json!({"name": name, "containerName": "main", "probe": {"exec": {"command": ["check"]}}})
}

/// A change of a Pod.
type Change = fn(&mut Value);

/// A running Pod of node `n` with label `app=web`, changed by `change`.
fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Arc<ObservedPod> {
    let mut object = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7", "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [
            {"name": "main", "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 9090}]},
        ]},
        "status": {"phase": "Running", "podIP": "10.0.0.7", "conditions": [
            {"type": "Initialized", "status": "True"},
        ]},
    });
    change(&mut object);
    Arc::new(ObservedPod::read(&object.to_string()).unwrap())
}

/// A NodePodProbe of node `n` that reports these states of Pod `web`.
fn reported(states: Value) -> NodePodProbe {
    let mut object = json!({"metadata": {"name": "n", "uid": "uid-n", "resourceVersion": "9"}});
    let mut pod = json!({"namespace": "shop", "name": "web", "uid": "uid-web"});
    pod["probeStates"] = states;
    object["status"]["podProbeStatuses"] = Value::Array(vec![pod]);
    read(&object)
}

fn read(object: &Value) -> NodePodProbe {
    serde_json::from_str(&object.to_string()).unwrap()
}
