//! The webhook of ResourceDistributions (docs/behaviour/resourcedistribution.md#feature-gate).

use serde_json::{Value, json};

use crate::support::{admission, ask};

const PATHS: [&str; 2] = [
    "/validate-apps-kruise-io-resourcedistribution",
    "/validate-apps-kruise-io-v1alpha1-resourcedistribution",
];

fn distribution(kind: &str, labels: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "metadata": {"name": "rd"},
        "spec": {"resource": {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}}, "targets": {}},
    });
    object["metadata"]["labels"] = labels;
    object
}

fn request(operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "uid": "1", "operation": operation, "name": "rd",
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "resourcedistributions"},
        "object": object, "oldObject": old,
    })
}

#[tokio::test]
async fn without_the_gate_only_what_lies_beside_the_spec_can_change() {
    let off = admission("", "");
    let (secret, map) = (distribution("Secret", json!({})), distribution("ConfigMap", json!({})));
    for path in PATHS {
        for (operation, old) in [("CREATE", Value::Null), ("UPDATE", map.clone())] {
            let answer = ask(&off, path, &request(operation, &secret, &old)).await;
            let status = json!({
                "metadata": {}, "code": 403, "message": "feature-gate ResourceDistributionGate is not enabled",
            });
            assert_eq!(answer["status"], status);
        }
        let labelled = distribution("Secret", json!({"a": "b"}));
        let answer = ask(&off, path, &request("UPDATE", &labelled, &secret)).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        assert_eq!(ask(&off, path, &request("DELETE", &Value::Null, &secret)).await["allowed"], true);
    }
}

#[tokio::test]
async fn with_the_gate_the_rules_answer_with_code_422_and_status_writes_are_not_checked() {
    let on = admission("ResourceDistributionGate=true", "");
    for path in PATHS {
        let pod = distribution("Pod", json!({}));
        let mut write = request("CREATE", &pod, &Value::Null);
        let answer = ask(&on, path, &write).await;
        assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(422)), "{answer}");
        write["subResource"] = json!("status");
        assert_eq!(ask(&on, path, &write).await["allowed"], true);
        let secret = request("CREATE", &distribution("Secret", json!({})), &Value::Null);
        assert_eq!(ask(&on, path, &secret).await["allowed"], true);
    }
}
