//! docs/behaviour/restarts.md#validation-of-an-ephemeraljob.

use serde_json::{Value, json};

use super::job;
use crate::ephemeraljob::validation::review;
use values::verdict::Verdict;

/// The refusal of a job that adds this container, if it is refused.
fn refusal(container: &Value) -> Option<String> {
    let mut all = job(&json!({}));
    all["spec"]["template"]["ephemeralContainers"] = json!([container]);
    refused(&review(&all.to_string(), None, true))
}

fn refused(verdict: &Verdict) -> Option<String> {
    verdict.denial().map(|denial| {
        assert_eq!(denial.code, 400);
        denial.message.clone()
    })
}

fn container(members: &Value) -> Value {
    let mut container = json!({"name": "debug", "image": "busybox:1.36"});
    json_patch::merge(&mut container, members);
    container
}

#[test]
fn what_kubernetes_fills_in_need_not_be_said() {
    let source = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    let mount = json!({"name": "data", "mountPath": "/data"});
    for members in [
        json!({}),
        json!({"targetContainerName": "main", "stdin": true, "tty": true, "resources": {}}),
        json!({"env": [{"name": "A", "valueFrom": source}], "volumeMounts": [mount]}),
        json!({"imagePullPolicy": "Never", "terminationMessagePolicy": "FallbackToLogsOnError"}),
    ] {
        assert_eq!(refusal(&container(&members)), None, "{members}");
    }
    let mut empty = job(&json!({}));
    empty["spec"]["template"]["ephemeralContainers"] = json!([]);
    assert_eq!(refused(&review(&empty.to_string(), None, true)), None);
}

#[test]
fn scenario_34_what_ephemeral_containers_can_not_have_is_refused() {
    let forbidden = |field: &str| {
        format!("ephemeralContainers[0].{field}: Forbidden: cannot be set for an Ephemeral Container")
    };
    let probe = json!({"tcpSocket": {"port": 80}});
    for (field, value) in [
        ("ports", json!([{"containerPort": 80, "protocol": "TCP"}])),
        ("resources", json!({"limits": {"cpu": "1"}})),
        ("livenessProbe", probe.clone()),
        ("readinessProbe", probe.clone()),
        ("startupProbe", probe),
        ("lifecycle", json!({"preStop": {"exec": {"command": ["x"]}}})),
        ("resizePolicy", json!([])),
        ("restartPolicy", json!("Always")),
    ] {
        assert_eq!(refusal(&container(&json!({field: value}))), Some(forbidden(field)));
    }
    let mount = |field: &str| json!({"volumeMounts": [{"name": "data", "mountPath": "/data", field: "a"}]});
    for field in ["subPath", "subPathExpr"] {
        assert_eq!(refusal(&container(&mount(field))), Some(forbidden(&format!("volumeMounts[0].{field}"))));
    }
}

#[test]
fn values_are_checked_as_kubernetes_checks_them() {
    let at = |rest: &str| Some(format!("ephemeralContainers[0].{rest}"));
    for (members, message) in [
        (json!({"name": ""}), "name: Required value"),
        (json!({"image": ""}), "image: Required value"),
        (
            json!({"image": " busybox"}),
            "image: Invalid value: \" busybox\": must not have leading or trailing whitespace",
        ),
        (
            json!({"imagePullPolicy": "Sometimes"}),
            "imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ),
        (
            json!({"terminationMessagePolicy": "Logs"}),
            "terminationMessagePolicy: Unsupported value: \"Logs\": supported values: \"File\", \"FallbackToLogsOnError\"",
        ),
        (json!({"env": [{"name": ""}]}), "env[0].name: Required value"),
    ] {
        assert_eq!(refusal(&container(&members)), at(message));
    }
    let mut twice = job(&json!({}));
    twice["spec"]["template"]["ephemeralContainers"] = json!([container(&json!({})), container(&json!({}))]);
    let message = "ephemeralContainers[1].name: Duplicate value: \"debug\"";
    assert_eq!(refused(&review(&twice.to_string(), None, true)).as_deref(), Some(message));
    let privileged = json!({"securityContext": {"privileged": true}});
    let mut all = job(&json!({}));
    all["spec"]["template"]["ephemeralContainers"] = json!([container(&privileged)]);
    let message = refused(&review(&all.to_string(), None, false)).unwrap();
    assert!(message.contains("disallowed by cluster policy"), "{message}");
}

#[test]
fn a_selector_that_can_not_be_used_is_refused_and_never_in_the_way() {
    let broken =
        json!({"matchLabels": null, "matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]});
    let broken = job(&json!({"selector": broken}));
    let message = refused(&review(&broken.to_string(), None, true)).unwrap();
    let expected =
        "spec.selector.matchExpressions[0].operator: Invalid value: \"Like\": not a valid selector operator";
    assert_eq!(message, expected);
    let mut longer = broken.clone();
    longer["spec"]["activeDeadlineSeconds"] = json!(9);
    assert_eq!(refused(&review(&longer.to_string(), Some(&broken.to_string()), true)), None);
    let mut freed = broken.clone();
    freed["metadata"]["finalizers"] = json!([]);
    assert_eq!(refused(&review(&freed.to_string(), Some(&broken.to_string()), true)), None);
}
