//! The objects of the cluster.

use benches::review;
use serde_json::{Value, json};

/// The label `app` of the Pod under review.
const APP: &str = "checkout";

/// The namespace with this number; the Pod under review is in number 0.
pub(crate) fn namespace_name(number: usize) -> String {
    format!("team-{number:03}")
}

pub(crate) fn namespace(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace_name(number), "labels": {"team": format!("team-{number:03}"), "stage": "production"}},
    })
}

/// The SidecarSet with this number. Numbers 0 and 1 match the Pod under review: a proxy with an init
/// container and a log shipper; the others are like them, for Pods with other labels.
pub(crate) fn sidecar_set(number: usize) -> Value {
    let app = if number < 2 { APP.to_owned() } else { format!("app-{number:04}") };
    if number.is_multiple_of(2) { proxy(number, &app) } else { log_shipper(number, &app) }
}

fn proxy(number: usize, app: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": format!("proxy-{number:04}")},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": "10%"},
            "initContainers": [{
                "name": "proxy-init",
                "image": "registry.example.com/mesh/init:1.24.2",
                "args": ["iptables", "-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*"],
                "resources": {"limits": {"cpu": "1", "memory": "128Mi"}, "requests": {"cpu": "10m", "memory": "40Mi"}},
            }],
            "containers": [{
                "name": "proxy",
                "image": "registry.example.com/mesh/proxy:1.24.2",
                "args": ["proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local", "--log-level", "warning"],
                "ports": [{"name": "proxy-metrics", "containerPort": 15090, "protocol": "TCP"}],
                "env": [
                    {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}},
                    {"name": "CONCURRENCY", "value": "2"},
                ],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 15021}, "periodSeconds": 15, "failureThreshold": 4},
                "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
                "volumeMounts": [{"name": "proxy-state", "mountPath": "/var/lib/proxy"}],
                "podInjectPolicy": "BeforeAppContainer",
                "shareVolumePolicy": {"type": "disabled"},
            }],
            "volumes": [{"name": "proxy-state", "emptyDir": {"medium": "Memory"}}],
        },
    })
}

fn log_shipper(number: usize, app: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": format!("log-shipper-{number:04}")},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 1},
            "containers": [{
                "name": "log-shipper",
                "image": "registry.example.com/platform/log-shipper:3.1.7",
                "env": [{"name": "OUTPUT", "value": "https://logs.example.com:8088"}],
                "transferEnv": [{"sourceContainerName": APP, "envName": "LOG_LEVEL"}],
                "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "log-buffer", "mountPath": "/buffer"}],
                "podInjectPolicy": "AfterAppContainer",
                "shareVolumePolicy": {"type": "enabled"},
            }],
            "volumes": [{"name": "log-buffer", "emptyDir": {}}],
        },
    })
}

/// The PodUnavailableBudget with this number, for other Pods than that under review: by turns of a workload and of
/// a label.
pub(crate) fn budget(number: usize) -> Value {
    let app = format!("app-{number:04}");
    let pods = if number.is_multiple_of(2) {
        ("targetRef", json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": app}))
    } else {
        ("selector", json!({"matchLabels": {"app": app}}))
    };
    json!({
        "apiVersion": "policy.kruise.io/v1beta1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": app, "namespace": namespace_name(0), "generation": 1},
        "spec": {pods.0: pods.1, "maxUnavailable": "10%"},
        "status": {
            "observedGeneration": 1, "totalReplicas": 10, "desiredAvailable": 9, "currentAvailable": 10,
            "unavailableAllowed": 1,
        },
    })
}

/// A Pod like that under review; it matches one of `sidecar_sets`.
pub(crate) fn pod(number: usize, sidecar_sets: usize, namespaces: usize) -> Value {
    let mut pod = review::pod_object();
    let metadata = pod["metadata"].as_object_mut().expect("metadata");
    for field in ["generateName", "managedFields"] {
        metadata.remove(field);
    }
    metadata.insert("name".to_owned(), format!("pod-{number:05}").into());
    metadata.insert("namespace".to_owned(), namespace_name(number % namespaces).into());
    metadata["labels"]["app"] = format!("app-{:04}", 2 + number % (sidecar_sets - 2)).into();
    metadata["ownerReferences"][0]["uid"] = format!("c1b1d7a2-2f0e-4e0b-9a77-{:012}", number / 3).into();
    pod["spec"]["nodeName"] = format!("node-{:03}", number % 200).into();
    pod
}
