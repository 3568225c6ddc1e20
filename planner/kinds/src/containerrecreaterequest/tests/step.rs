//! docs/behaviour/restarts.md#the-controller-of-containerrecreaterequests.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ACTIVE, FINALIZER, at, observed, pod, read, request};
use crate::containerrecreaterequest::step::{Step, step};

/// The next step, with patches as values.
fn next(request: &Value, pod: Option<&Value>, seconds: i64) -> Step {
    let pod = pod.map(observed);
    step(&read(request), pod.as_ref(), at(seconds))
}

/// What the step writes to the status.
fn status(request: &Value, pod: Option<&Value>, seconds: i64) -> Value {
    match next(request, pod, seconds) {
        Step::Status(patch) => serde_json::from_str::<Value>(&patch).unwrap()["status"].clone(),
        other => panic!("{other:?}"),
    }
}

fn completed(seconds: i64, message: &str) -> Value {
    let time = at(seconds).to_string();
    json!({"phase": "Completed", "completionTime": time, "message": message})
}

fn wait(seconds: u64) -> Step {
    Step::Wait(Some(Duration::from_secs(seconds)))
}

#[test]
fn scenario_27_without_an_agent_a_request_ends_after_a_minute() {
    let new = request(&json!({}), json!({}));
    let pod = pod([-9, -9], false);
    assert_eq!(next(&new, Some(&pod), 20), wait(40));
    assert_eq!(status(&new, Some(&pod), 60), completed(60, "daemon has not responded for a long time"));
    let pending = request(&json!({}), json!({"phase": "Pending"}));
    assert_eq!(next(&pending, Some(&pod), 999), Step::Wait(None));
}

#[test]
fn a_deadline_ends_whatever_was_begun() {
    let text = "recreating has exceeded the activeDeadlineSeconds";
    let pod = pod([-9, -9], false);
    for phase in ["", "Pending", "Recreating"] {
        let request = request(&json!({"activeDeadlineSeconds": 10}), json!({"phase": phase}));
        assert_eq!(next(&request, Some(&pod), 4), wait(6), "{phase}");
        assert_eq!(status(&request, Some(&pod), 10), completed(10, text), "{phase}");
    }
}

#[test]
fn scenario_31_a_pod_that_is_gone_or_another_one_ends_it() {
    let gone = completed(1, "pod has gone");
    let (mut leaving, mut other) = (pod([0, 0], false), pod([0, 0], false));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    other["metadata"]["uid"] = json!("v");
    for phase in ["", "Pending", "Recreating"] {
        let request = request(&json!({}), json!({"phase": phase}));
        for pod in [None, Some(&leaving), Some(&other)] {
            assert_eq!(status(&request, pod, 1), gone, "{phase}");
        }
    }
}

#[test]
fn the_agent_gets_containers_that_are_new() {
    let recreating = |snapshot: Value| {
        request(&json!({}), json!({"phase": "Recreating", "containerStatusSnapshot": snapshot}))
    };
    let seen = |name: &str| json!({"name": name, "ready": true, "restartCount": 1, "containerID": format!("containerd://{name}")});
    assert_eq!(next(&recreating(json!([])), Some(&pod([-1, -1], false)), 2), Step::Wait(None));
    let reported = status(&recreating(json!([])), Some(&pod([-1, 0], false)), 2);
    assert_eq!(reported, json!({"phase": "Recreating", "containerStatusSnapshot": [seen("b")]}));
    let reported = status(&recreating(json!([seen("b")])), Some(&pod([3, 0], false)), 4);
    assert_eq!(reported["containerStatusSnapshot"], json!([seen("a"), seen("b")]));
    let same = recreating(json!([seen("a"), seen("b")]));
    assert_eq!(next(&same, Some(&pod([3, 0], false)), 5), Step::Wait(None));
    let mut stopped = pod([3, 0], false);
    stopped["status"]["containerStatuses"] = json!([]);
    assert_eq!(next(&same, Some(&stopped), 5), Step::Wait(None), "what was told stays");

    let mut native = pod([-1, -1], false);
    native["status"]["initContainerStatuses"] = native["status"]["containerStatuses"].take();
    native["status"]["containerStatuses"] = json!([]);
    native["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!(at(1).to_string());
    assert_eq!(
        status(&recreating(json!([])), Some(&native), 2)["containerStatusSnapshot"],
        json!([seen("a")])
    );
}

#[test]
fn scenario_28_a_pod_is_held_before_and_let_go_after() {
    let strategy = json!({"strategy": {"unreadyGracePeriodSeconds": 5}});
    let mut held = request(&strategy, json!({"phase": "Recreating"}));
    let ready = pod([-1, -1], true);
    let Step::Request(patch) = next(&held, Some(&ready), 1) else { panic!() };
    let patch: Value = serde_json::from_str(&patch).unwrap();
    assert_eq!(patch, json!({"metadata": {"uid": "r", "resourceVersion": "7", "finalizers": [FINALIZER]}}));
    held["metadata"]["finalizers"] = json!([FINALIZER]);
    let Step::Pod(write) = next(&held, Some(&ready), 1) else { panic!() };
    let mut pod = observed(&ready);
    write.apply(&mut pod);
    let gate = pod.condition("KruisePodReady").unwrap();
    let key = r#"[{"userAgent":"ContainerRecreateRequest","key":"shop/crr"}]"#;
    assert_eq!((&*gate.status, &*gate.message), ("False", key));
    assert!(!pod.is_ready());
    let Step::Status(patch) = step(&read(&held), Some(&pod), at(2)) else { panic!() };
    let patch: Value = serde_json::from_str(&patch).unwrap();
    let condition = json!({"type": "PreRecreateGrace", "status": "True", "reason": "PreRecreateGrace",
        "message": "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain",
        "lastTransitionTime": at(2).to_string()});
    assert_eq!(patch["status"], json!({"phase": "Recreating", "conditions": [condition]}));
    held["status"] = patch["status"].clone();
    assert_eq!(step(&read(&held), Some(&pod), at(9)), Step::Wait(None));

    held["status"]["completionTime"] = json!(at(20).to_string());
    let Step::Pod(write) = step(&read(&held), Some(&pod), at(20)) else { panic!() };
    write.apply(&mut pod);
    let gate = pod.condition("KruisePodReady").unwrap();
    assert_eq!((&*gate.status, &*gate.message), ("True", "[]"));
    let Step::Request(patch) = step(&read(&held), Some(&pod), at(20)) else { panic!() };
    let patch: Value = serde_json::from_str(&patch).unwrap();
    assert_eq!(patch["metadata"]["finalizers"], json!([]));
    assert_eq!(patch["metadata"]["labels"], json!({ACTIVE: null}));
}

#[test]
fn without_the_gate_the_time_is_waited_all_the_same() {
    let strategy = json!({"strategy": {"unreadyGracePeriodSeconds": 5}});
    let request = request(&strategy, json!({"phase": "Recreating"}));
    let reported = status(&request, Some(&pod([-1, -1], false)), 1);
    assert_eq!(reported["conditions"][0]["type"], "PreRecreateGrace");
}

#[test]
fn a_request_that_is_over_loses_its_mark_and_then_itself() {
    let mut done = request(&json!({"ttlSecondsAfterFinished": 30}), completed(10, ""));
    let Step::Request(patch) = next(&done, None, 11) else { panic!() };
    let patch: Value = serde_json::from_str(&patch).unwrap();
    assert_eq!(patch["metadata"]["labels"], json!({ACTIVE: null}));
    assert_eq!(patch["metadata"].get("finalizers"), None);
    done["metadata"]["labels"].as_object_mut().unwrap().remove(ACTIVE);
    assert_eq!(next(&done, None, 11), wait(29));
    assert_eq!(next(&done, None, 40), Step::Delete);
    done["spec"].as_object_mut().unwrap().remove("ttlSecondsAfterFinished");
    assert_eq!(next(&done, None, 40), Step::Wait(None));
}

#[test]
fn one_that_is_deleted_lets_the_pod_go_whatever_its_phase() {
    let mut deleted = request(&json!({}), json!({"phase": "Recreating"}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(next(&deleted, Some(&pod([0, 0], true)), 1), Step::Wait(None));
    deleted["metadata"]["finalizers"] = json!(["x", FINALIZER]);
    let Step::Request(patch) = next(&deleted, None, 1) else { panic!() };
    let patch: Value = serde_json::from_str(&patch).unwrap();
    assert_eq!(patch["metadata"]["finalizers"], json!(["x"]));
    assert_eq!(patch["metadata"].get("labels"), None);
}
