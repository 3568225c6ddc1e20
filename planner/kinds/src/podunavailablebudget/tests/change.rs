use serde_json::{Value, json};

use super::fixture::pod_json;
use crate::podunavailablebudget::change::operation;
use crate::podunavailablebudget::terms::Operation;

fn change(old: &Value, new: &Value) -> Option<Operation> {
    let text = |over: &Value| pod_json("web-0", over).to_string();
    operation(&text(old), &text(new)).unwrap()
}

const UPDATE: Option<Operation> = Some(Operation::Update);
const RESIZE: Option<Operation> = Some(Operation::Resize);

#[test]
fn each_change_of_the_spec_counts_and_no_other() {
    let none = json!({});
    for (new, expected) in [
        (json!({}), None),
        (
            json!({"metadata": {"labels": {"foo": "bar"}, "annotations": {"a": "b"}, "finalizers": ["x"]}}),
            None,
        ),
        (json!({"status": {"phase": "Failed"}}), None),
        (json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), UPDATE),
        (json!({"spec": {"activeDeadlineSeconds": 5}}), UPDATE),
        (json!({"spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]}}), UPDATE),
    ] {
        assert_eq!(change(&none, &new), expected, "{new}");
    }
    let order = r#"{"metadata":{},"spec":{"b":1,"a":2}}"#;
    assert_eq!(operation(order, r#"{"metadata":{},"spec":{"a":2,"b":1}}"#), Ok(None));
    assert_eq!(operation("[", order).unwrap_err().code, 400);
}

#[test]
fn a_label_that_takes_a_pod_out_counts_once() {
    let out = |labels: &[&str]| {
        let labels: serde_json::Map<String, Value> =
            labels.iter().map(|name| (format!("unavailable-pod.kruise.io/{name}"), json!(""))).collect();
        json!({"metadata": {"labels": labels}})
    };
    assert_eq!(change(&out(&[]), &out(&["a"])), UPDATE);
    assert_eq!(change(&out(&["a"]), &out(&["a", "b"])), None);
    assert_eq!(change(&out(&["a"]), &out(&[])), None);
}

fn resources(resources: &Value, policy: &Value) -> Value {
    json!({"spec": {"containers": [
        {"name": "main", "image": "busybox:1.36", "resources": resources, "resizePolicy": policy},
    ]}})
}

#[test]
fn a_resize_changes_cpu_and_memory_without_a_restart() {
    let free = json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    let restarts = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let old = resources(&requests("1"), &free);
    for (new, expected) in [
        (resources(&requests("2"), &free), RESIZE),
        (resources(&requests("1000m"), &free), RESIZE),
        (resources(&json!({"requests": {"cpu": "1", "memory": "1Gi"}}), &free), RESIZE),
        (resources(&json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}), &free), RESIZE),
        (resources(&json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}), &free), UPDATE),
        // Another quality of service.
        (resources(&json!({}), &free), UPDATE),
        (resources(&requests("2"), &restarts), UPDATE),
    ] {
        assert_eq!(change(&old, &new), expected, "{new}");
    }
    let under = |cpu: &str| resources(&requests(cpu), &restarts);
    assert_eq!(change(&under("1"), &under("2")), UPDATE);
    let unset = |cpu: &str| resources(&requests(cpu), &Value::Null);
    assert_eq!(change(&unset("1"), &unset("2")), RESIZE);
    let sidecar = |requests: Value, policy: &Value| {
        let sidecar = json!({"name": "proxy", "image": "proxy:1", "restartPolicy": "Always",
            "resources": {"requests": requests}, "resizePolicy": policy});
        json!({"spec": {"initContainers": [sidecar]}})
    };
    let (one, two) = (json!({"cpu": "1"}), json!({"cpu": "2"}));
    assert_eq!(change(&sidecar(one.clone(), &free), &sidecar(two.clone(), &free)), RESIZE);
    assert_eq!(change(&sidecar(one, &restarts), &sidecar(two, &restarts)), UPDATE);
    let fixed = |cpu: &str| {
        let mut pod = unset(cpu);
        pod["metadata"] = json!({"annotations": {"kubernetes.io/config.source": "file"}});
        pod
    };
    assert_eq!(change(&fixed("1"), &fixed("2")), UPDATE);
    let mut other = unset("2");
    other["spec"]["activeDeadlineSeconds"] = json!(5);
    assert_eq!(change(&unset("1"), &other), UPDATE);
}
