//! docs/behaviour/restarts.md#admission-of-a-containerrecreaterequest.

use serde_json::{Value, json};

use crate::containerrecreaterequest::admission::{Request, update};
use values::json_patch::apply;
use values::verdict::{Denial, Verdict};

const NODE: &str = r#"{"metadata":{"name":"n"}}"#;

fn pod() -> Value {
    let hook = json!({"httpGet": {"port": "http", "path": "/bye"}});
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 45,
            "initContainers": [{"name": "once"}, {"name": "proxy", "restartPolicy": "Always"}],
            "containers": [
                {"name": "main", "ports": [{"name": "http", "containerPort": 80}], "lifecycle": {"preStop": hook}},
                {"name": "side", "ports": [{"containerPort": 81}],
                    "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}},
                {"name": "slow", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
                {"name": "new"}, {"name": "silent"}]},
        "status": {"phase": "Running",
            "initContainerStatuses": [{"name": "once", "containerID": "c://once"},
                {"name": "proxy", "containerID": "c://proxy", "restartCount": 2}],
            "containerStatuses": [{"name": "main", "containerID": "c://main", "restartCount": 3},
                {"name": "side", "containerID": "c://side"}, {"name": "slow", "containerID": "c://slow"},
                {"name": "new"}]},
    })
}

fn request(containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
    json!({"metadata": {"name": "crr"}, "spec": {"podName": "web", "containers": containers}})
}

/// The request as it is stored.
fn admitted(request: &Value, pod: &Value, node: &str) -> Result<Value, Denial> {
    let text = request.to_string();
    let (request, pod) = (Request::read(&text)?, pod.to_string());
    let patch = request.bind(Some(&pod))?.complete(Some(node))?;
    Ok(serde_json::from_str(&apply(&text, &patch).unwrap()).unwrap())
}

fn refusal(request: &Value, pod: &Value) -> String {
    let denial = admitted(request, pod, NODE).unwrap_err();
    assert_eq!(denial.code, 400, "{}", denial.message);
    denial.message
}

#[test]
fn scenario_25_a_request_takes_over_what_the_agent_needs() {
    let stored = admitted(&request(&["main", "side", "proxy", "slow"]), &pod(), NODE).unwrap();
    let labels = json!({"crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/node-name": "n",
        "crr.apps.kruise.io/pod-uid": "u"});
    let annotations = json!({"kutter.io/crr-pre-stop-sleep": r#"{"slow":5}"#});
    assert_eq!(stored["metadata"], json!({"name": "crr", "labels": labels, "annotations": annotations}));
    let context = |id: &str, restarts: i32| json!({"containerID": id, "restartCount": restarts});
    let expected = json!({
        "podName": "web",
        "strategy": {"failurePolicy": "Fail", "terminationGracePeriodSeconds": 45},
        "containers": [
            {"name": "main", "preStop": {"httpGet": {"port": "http", "path": "/bye"}},
                "ports": [{"name": "http", "containerPort": 80}], "statusContext": context("c://main", 3)},
            {"name": "side", "preStop": {"exec": {"command": ["x"]}}, "statusContext": context("c://side", 0)},
            {"name": "proxy", "statusContext": context("c://proxy", 2)},
            {"name": "slow", "statusContext": context("c://slow", 0)},
        ],
    });
    assert_eq!(stored["spec"], expected);
}

#[test]
fn what_is_given_stays_and_virtual_nodes_are_reported() {
    let mut given = request(&["main"]);
    given["metadata"]["labels"] = json!({"app": "web", "crr.apps.kruise.io/active": "no"});
    given["spec"]["strategy"] = json!({"failurePolicy": "Ignore", "terminationGracePeriodSeconds": 0});
    let node = r#"{"metadata":{"labels":{"type":"virtual-kubelet"}}}"#;
    let stored = admitted(&given, &pod(), node).unwrap();
    let labels = &stored["metadata"]["labels"];
    assert_eq!((&labels["app"], &labels["type"]), (&json!("web"), &json!("virtual-kubelet")));
    assert_eq!(labels["crr.apps.kruise.io/active"], "true");
    assert_eq!(stored["spec"]["strategy"], given["spec"]["strategy"]);
}

#[test]
fn scenario_25_what_may_not_be_said_is_refused() {
    let with = |pointer: &str, value: Value| {
        let mut request = request(&["main"]);
        json_patch::merge(&mut request["spec"], &json!({}));
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        if request.pointer(parent).is_none() {
            request["spec"]["strategy"] = json!({});
        }
        request.pointer_mut(parent).unwrap()[key] = value;
        request
    };
    for (request, message) in [
        (with("/spec/podName", json!("")), "podName can not be empty"),
        (with("/spec/containers", json!([])), "containers list can not be null"),
        (with("/spec/activeDeadlineSeconds", json!(2)), "activeDeadlineSeconds can not be less than 3s"),
        (
            with("/spec/strategy/terminationGracePeriodSeconds", json!(-1)),
            "terminationGracePeriodSeconds must be non-negative integer",
        ),
        (
            with("/spec/strategy/unreadyGracePeriodSeconds", json!(-1)),
            "unreadyGracePeriodSeconds must be non-negative integer",
        ),
        (
            with("/spec/strategy/minStartedSeconds", json!(-1)),
            "minStartedSeconds must be non-negative integer",
        ),
        (with("/spec/strategy/failurePolicy", json!("Maybe")), "unknown failurePolicy Maybe"),
        (request(&["main", "main"]), "can not recreate main multi times"),
        (request(&["x"]), "container x not found in Pod"),
        (request(&["once"]), "not found once containerStatus in Pod Status"),
        (request(&["silent"]), "not found silent containerStatus in Pod Status"),
        (
            request(&["new"]),
            "no containerID in new containerStatus, maybe the container has not been initialized",
        ),
        (
            with(
                "/spec/containers",
                json!([{"name": "main", "statusContext": {"containerID": "", "restartCount": 0}}]),
            ),
            "preStop, ports, statusContext in container are ready-only fields",
        ),
    ] {
        assert_eq!(refusal(&request, &pod()), message);
    }
}

#[test]
fn pods_that_run_nowhere_are_refused() {
    let request = request(&["main"]);
    let inactive = "not allowed to recreate containers in an inactive Pod";
    let mut ended = pod();
    ended["status"]["phase"] = json!("Succeeded");
    assert_eq!(refusal(&request, &ended), inactive);
    ended["status"]["conditions"] = json!([{"type": "SidecarTerminated", "status": "True"}]);
    assert!(admitted(&request, &ended, NODE).is_ok(), "its sidecars may still run");
    let mut leaving = pod();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(refusal(&request, &leaving), inactive);
    let mut pending = pod();
    pending["spec"]["nodeName"] = Value::Null;
    pending["spec"].as_object_mut().unwrap().remove("nodeName");
    assert_eq!(refusal(&request, &pending), "not allowed to recreate containers in a pending Pod");

    let text = request.to_string();
    let read = Request::read(&text).unwrap();
    assert_eq!(read.bind(None).unwrap_err().message, "no found Pod named web");
    let pod = pod().to_string();
    let denial = read.bind(Some(&pod)).unwrap().complete(None).unwrap_err();
    assert_eq!(denial.message, "failed to get Node n: Node \"n\" not found");
}

#[test]
fn scenario_26_updates_change_neither_spec_nor_marks() {
    let stored = admitted(&request(&["main"]), &pod(), NODE).unwrap();
    let answer = |change: Value, version: &str| {
        let mut new = stored.clone();
        json_patch::merge(&mut new, &change);
        let verdict = update(&new.to_string(), &stored.to_string(), version);
        verdict.denial().map(|denial| (denial.code, denial.message.clone()))
    };
    let refused = |message: &str| Some((403, message.to_owned()));
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    assert_eq!(
        answer(json!({"spec": {"activeDeadlineSeconds": 9}}), "v1beta1"),
        refused("spec of ContainerRecreateRequest is immutable")
    );
    for key in ["crr.apps.kruise.io/node-name", "crr.apps.kruise.io/pod-uid"] {
        let message = format!("not allowed to update immutable label {key}");
        for value in [json!("other"), Value::Null] {
            assert_eq!(answer(label(key, value), "v1beta1"), refused(&message));
        }
    }
    for allowed in
        [label("crr.apps.kruise.io/active", Value::Null), json!({"metadata": {"finalizers": ["x"]}})]
    {
        assert_eq!(answer(allowed, "v1beta1"), None);
    }
    let key = "crr.apps.kruise.io/unready-acquired";
    let marked = |value: Value| json!({"metadata": {"annotations": {key: value}}});
    let mut held = stored.clone();
    json_patch::merge(&mut held, &marked(json!("2026-01-01T00:00:00Z")));
    let message = format!("not allowed to update immutable annotation {key}");
    for (version, expected) in [("v1alpha1", Some(message)), ("v1beta1", None)] {
        let verdict = update(&stored.to_string(), &held.to_string(), version);
        assert_eq!(verdict.denial().map(|denial| denial.message.clone()), expected);
    }
    assert_eq!(answer(marked(json!("2026-01-01T00:00:00Z")), "v1alpha1"), None);
}

#[test]
fn a_manifest_that_is_applied_again_keeps_what_the_request_took_over() {
    let (manifest, pod) = (request(&["main"]), pod());
    let stored = admitted(&manifest, &pod, NODE).unwrap();
    let mut again = stored.clone();
    again["spec"] = manifest["spec"].clone();
    assert_ne!(again["spec"], stored["spec"]);
    let answer = |new: &Value| update(&new.to_string(), &stored.to_string(), "v1beta1");
    let Verdict::Allow { edits, .. } = answer(&again) else { panic!("it is refused") };
    let patched: Value = serde_json::from_str(&apply(&again.to_string(), &edits).unwrap()).unwrap();
    assert_eq!(patched, stored);
    for change in [json!({"name": "side"}), json!({"statusContext": {"containerID": "c://other"}})] {
        let mut other = again.clone();
        json_patch::merge(&mut other["spec"]["containers"][0], &change);
        assert!(!answer(&other).is_allowed(), "{change}");
    }
}
