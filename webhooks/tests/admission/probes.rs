//! PodProbeMarkers in admission (docs/behaviour/probes.md#validation-of-a-podprobemarker).

use serde_json::{Value, json};

use crate::support::{admission, ask};

const PATH: &str = "/validate-apps-kruise-io-podprobemarker";

fn write(operation: &str, object: &Value, old: &Value) -> Value {
    json!({"uid": "1", "operation": operation, "name": "game", "namespace": "shop",
        "resource": {"group": "apps.kruise.io", "version": "v1alpha1", "resource": "podprobemarkers"},
        "object": object, "oldObject": old})
}

fn marker() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "game"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "probes": [
            {"name": "idle", "containerName": "main", "podConditionType": "game/idle",
                "probe": {"exec": {"command": ["check"]}}}]}})
}

#[tokio::test]
async fn markers_are_refused_while_their_gate_is_off() {
    let create = write("CREATE", &marker(), &Value::Null);
    assert_eq!(ask(&admission("", ""), PATH, &create).await["allowed"], true);
    for gates in ["PodProbeMarkerGate=false", "KruiseDaemon=false"] {
        let off = admission(gates, "");
        let refused = ask(&off, PATH, &create).await;
        let message = "feature-gate PodProbeMarkerGate is not enabled";
        assert_eq!(refused["status"], json!({"metadata": {}, "code": 403, "message": message}), "{gates}");
        let mut released = marker();
        released["metadata"]["finalizers"] = json!([]);
        assert_eq!(ask(&off, PATH, &write("UPDATE", &released, &marker())).await["allowed"], true, "{gates}");
    }
}

#[tokio::test]
async fn a_marker_that_says_too_little_is_refused() {
    let mut wrong = marker();
    wrong["spec"]["probes"][0]["name"] = json!("a#b");
    let refused = ask(&admission("", ""), PATH, &write("CREATE", &wrong, &Value::Null)).await;
    assert_eq!(refused["status"]["code"], 400);
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.ends_with("probe name can't contains '#'."), "{message}");
}
