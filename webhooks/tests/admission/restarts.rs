//! The webhooks of ContainerRecreateRequests and EphemeralJobs over files (docs/behaviour/restarts.md).

use serde_json::{Value, json};

use crate::support::{CLUSTER, admission, ask};

const REQUESTS: &str = "/mutate-apps-kruise-io-containerrecreaterequest";
const JOBS: &str = "/validate-apps-kruise-io-v1alpha1-ephemeraljob";

fn request(pod: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "crr", "namespace": "shop"}, "spec": {"podName": pod, "containers": [{"name": "main"}]}})
}

fn write(operation: &str, version: &str, object: &Value, old: &Value) -> Value {
    json!({"uid": "1", "operation": operation, "name": "crr", "namespace": "shop",
        "resource": {"group": "apps.kruise.io", "version": version, "resource": "containerrecreaterequests"},
        "object": object, "oldObject": old})
}

#[tokio::test]
async fn a_request_is_completed_from_its_pod_and_node() {
    let on = admission("", CLUSTER);
    for version in ["v1alpha1", "v1beta1"] {
        let answer = ask(&on, REQUESTS, &write("CREATE", version, &request("web"), &Value::Null)).await;
        assert_eq!(
            (&answer["allowed"], &answer["patchType"]),
            (&json!(true), &json!("JSONPatch")),
            "{answer}"
        );
    }
    for (pod, message) in
        [("none", "no found Pod named none"), ("lost", "failed to get Node gone: Node \"gone\" not found")]
    {
        let answer = ask(&on, REQUESTS, &write("CREATE", "v1beta1", &request(pod), &Value::Null)).await;
        assert_eq!(answer["status"], json!({"metadata": {}, "code": 400, "message": message}));
    }
}

#[tokio::test]
async fn without_the_gate_only_what_lies_beside_the_spec_can_change() {
    let off = admission("KruiseDaemon=false", CLUSTER);
    let (stored, mut other) = (request("web"), request("web"));
    other["spec"]["activeDeadlineSeconds"] = json!(9);
    let status = json!({"metadata": {}, "code": 403, "message": "feature-gate KruiseDaemon is not enabled"});
    for (operation, old) in [("CREATE", Value::Null), ("UPDATE", other)] {
        let answer = ask(&off, REQUESTS, &write(operation, "v1beta1", &stored, &old)).await;
        assert_eq!(answer["status"], status);
    }
    let mut freed = stored.clone();
    freed["metadata"]["finalizers"] = json!([]);
    for (operation, object) in [("UPDATE", &freed), ("DELETE", &Value::Null)] {
        let answer = ask(&off, REQUESTS, &write(operation, "v1beta1", object, &stored)).await;
        assert_eq!(answer["allowed"], true, "{answer}");
    }
}

#[tokio::test]
async fn a_job_is_checked_and_stays_as_it_was_sent() {
    let on = admission("", "");
    let job = |container: Value| {
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "EphemeralJob", "metadata": {"name": "job"},
            "spec": {"selector": {}, "template": {"ephemeralContainers": [container]}}})
    };
    let good = job(json!({"name": "debug", "image": "busybox"}));
    let answer = ask(&on, JOBS, &write("CREATE", "v1alpha1", &good, &Value::Null)).await;
    assert_eq!((&answer["allowed"], &answer["patch"]), (&json!(true), &Value::Null), "{answer}");
    let bad = job(json!({"name": "debug", "image": "busybox", "ports": [{"containerPort": 80}]}));
    let answer = ask(&on, JOBS, &write("CREATE", "v1alpha1", &bad, &Value::Null)).await;
    assert_eq!(answer["status"]["code"], 400, "{answer}");
}
