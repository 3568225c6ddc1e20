use serde_json::{Value, json};

use crate::pod_review::fixture::{Cluster, pod};

const CONTEXT: &str = "apps.kruise.io/container-probe-context";

fn on() -> Cluster {
    Cluster::new().gates("EnhancedLivenessProbe=true")
}

/// A Pod of a CloneSet that asks for the feature.
fn asking(containers: Value) -> Value {
    let mut pod = pod(containers);
    pod["metadata"]["annotations"] = json!({"apps.kruise.io/using-enhanced-liveness": "true"});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "c", "controller": true}]);
    pod["spec"]["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
    pod
}

fn health() -> Value {
    json!({"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
        "httpGet": {"scheme": "HTTP", "port": 7001, "path": "/health"}})
}

fn context(pod: &Value) -> &str {
    pod["metadata"]["annotations"][CONTEXT].as_str().unwrap()
}

#[test]
fn example_12_7_scenario_29_the_probe_moves() {
    let asking = asking(
        json!([{"name": "c1", "livenessProbe": health(), "readinessProbe": health()}, {"name": "c2"}]),
    );
    let admitted = on().admit(&asking);
    assert_eq!(
        context(&admitted),
        r#"[{"name":"c1","livenessProbe":{"httpGet":{"path":"/health","port":7001,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}}]"#
    );
    assert_eq!(
        admitted["spec"]["containers"],
        json!([{"name": "c1", "readinessProbe": health()}, {"name": "c2"}])
    );
    assert_eq!(on().admit(&admitted), admitted);
}

#[test]
fn scenario_29_others_are_left_alone() {
    let probed = || asking(json!([{"name": "c1", "livenessProbe": health()}]));
    assert_eq!(Cluster::new().admit(&probed()), probed());
    let without_daemon = Cluster::new().gates("EnhancedLivenessProbe=true,KruiseDaemon=false");
    assert_eq!(without_daemon.admit(&probed()), probed());
    let mut deployed = probed();
    deployed["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps/v1");
    let mut shouting = probed();
    shouting["metadata"]["annotations"]["apps.kruise.io/using-enhanced-liveness"] = json!("True");
    let mut initial = asking(json!([{"name": "c1", "livenessProbe": null}]));
    initial["spec"]["initContainers"] =
        json!([{"name": "i", "restartPolicy": "Always", "livenessProbe": health()}]);
    for pod in [deployed, shouting, initial] {
        assert_eq!(on().admit(&pod), pod);
    }
}

#[test]
fn injected_probes_move_too_and_a_second_review_loses_none() {
    let exec = json!({"exec": {"command": ["true"]}, "future": 1});
    let sidecar =
        |name: &str, policy: &str| json!({"name": name, "podInjectPolicy": policy, "livenessProbe": exec});
    let sidecars = [sidecar("front", "BeforeAppContainer"), sidecar("behind", "AfterAppContainer")];
    let cluster = on().set("s", json!({"containers": sidecars}));
    let admitted =
        cluster.admit(&asking(json!([{"name": "m", "livenessProbe": {"grpc": {"port": 1}}}, {"name": "n"}])));
    let moved = r#"{"name":"front","livenessProbe":{"exec":{"command":["true"]},"future":1}},{"name":"m","livenessProbe":{"grpc":{"port":1,"service":null}}},{"name":"behind","livenessProbe":{"exec":{"command":["true"]},"future":1}}"#;
    assert_eq!(context(&admitted), format!("[{moved}]"));
    let containers = admitted["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 4);
    assert!(containers.iter().all(|container| container.get("livenessProbe").is_none()), "{admitted:#}");
    assert_eq!(cluster.admit(&admitted), admitted);
}

#[test]
fn a_probe_that_is_none_is_a_bad_request() {
    let (code, message) =
        on().refuse(&asking(json!([{"name": "c1", "livenessProbe": {"periodSeconds": "x"}}])));
    assert_eq!(code, 400);
    assert!(message.starts_with("livenessProbe of container c1: periodSeconds: "), "{message}");
}
