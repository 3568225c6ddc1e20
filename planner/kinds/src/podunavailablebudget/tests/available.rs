use serde_json::{Value, json};

use super::fixture::{gates, pod};
use crate::podunavailablebudget::available::Availability;

fn obstacle(over: &Value) -> String {
    Availability::new(&gates("")).obstacle(&pod("web-0", over)).unwrap_or_default()
}

#[test]
fn a_pod_must_run_be_ready_and_not_be_taken_out() {
    assert_eq!(obstacle(&json!({})), "");
    for (over, expected) in [
        (json!({"status": {"phase": "Pending"}}), "its phase is Pending"),
        (json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), "it is not ready"),
        (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "it is being deleted"),
        (
            json!({"metadata": {"labels": {"unavailable-pod.kruise.io/drain": ""}}}),
            "label unavailable-pod.kruise.io/drain takes it out",
        ),
    ] {
        assert_eq!(obstacle(&over), expected, "{over}");
    }
}

#[test]
fn a_pod_fails_where_it_runs_is_not_ready_and_nobody_took_it_out() {
    let fails = |over: &Value| {
        let mut unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        super::fixture::merge(&mut unready, over);
        Availability::new(&gates("")).pod_fails(&pod("web-0", &unready))
    };
    let gate = |gate: &str, status: &str| {
        let conditions = json!([{"type": "Ready", "status": "False"}, {"type": gate, "status": status}]);
        json!({"status": {"conditions": conditions}})
    };
    let waiting = |statuses: &str, reason: &str| {
        let container = json!({"name": "main", "state": {"waiting": {"reason": reason}}});
        json!({"status": {statuses: [container]}})
    };
    for over in [
        json!({}),
        json!({"status": {"conditions": []}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        gate("KruisePodReady", "True"),
        gate("InPlaceUpdateReady", "True"),
        gate("example.com/registered", "False"),
        json!({"metadata": {"annotations": {"apps.kruise.io/inplace-update-state": "{}"}}}),
        waiting("containerStatuses", "CrashLoopBackOff"),
    ] {
        assert!(fails(&over), "{over}");
    }
    for over in [
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"status": {"phase": "Pending"}}),
        json!({"status": {"phase": "Failed"}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"metadata": {"labels": {"unavailable-pod.kruise.io/drain": ""}}}),
        gate("KruisePodReady", "False"),
        gate("InPlaceUpdateReady", "False"),
        json!({"metadata": {"annotations": {"apps.kruise.io/inplace-update-grace": "{}"}}}),
        json!({"spec": {"containers": [{"name": "main", "image": "busybox@sha256:11"}]}}),
        waiting("containerStatuses", "ImagePullBackOff"),
        waiting("containerStatuses", "ContainerCreating"),
        waiting("initContainerStatuses", "ErrImagePull"),
    ] {
        assert!(!fails(&over), "{over}");
    }
}

fn images(images: &[&str], ids: &[&str], over: &Value) -> String {
    let name = |position: usize| format!("c{position}");
    let containers: Vec<Value> =
        images.iter().enumerate().map(|(at, image)| json!({"name": name(at), "image": image})).collect();
    let statuses: Vec<Value> =
        ids.iter().enumerate().map(|(at, id)| json!({"name": name(at), "imageID": id})).collect();
    let mut pod = json!({"spec": {"containers": containers}, "status": {"containerStatuses": statuses}});
    super::fixture::merge(&mut pod, over);
    obstacle(&pod)
}

#[test]
fn digests_are_those_that_run() {
    let stale = "container c0 does not run its image yet";
    for (image, id, expected) in [
        ("busybox@sha256:11", "docker.io/library/busybox@sha256:11", ""),
        ("busybox:1.36@sha256:11", "docker-pullable://busybox@sha256:11", ""),
        ("busybox@sha256:11", "docker.io/library/busybox@sha256:22", stale),
        ("busybox@sha256:11", "docker.io/team/busybox@sha256:11", stale),
        ("busybox@sha256:11", "sha256:11", stale),
        ("busybox@sha256:11", "", stale),
        ("busybox:1.36", "docker.io/library/busybox@sha256:22", ""),
    ] {
        assert_eq!(images(&[image], &[id], &json!({})), expected, "{image} {id}");
    }
    assert_eq!(images(&["busybox@sha256:11"], &[], &json!({})), stale);
}

#[test]
fn an_update_in_place_must_be_completed() {
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    for key in ["apps.kruise.io/inplace-update-grace", "inplace-update-grace"] {
        assert_ne!(obstacle(&annotated(key, "{}")), "");
    }
    let state = |text: &str| annotated("apps.kruise.io/inplace-update-state", text);
    assert_ne!(obstacle(&state("{")), "");
    assert_ne!(obstacle(&state(r#"{"nextContainerImages":{"main":"busybox:1.37"}}"#)), "");
    assert_eq!(obstacle(&state("{}")), "");
    let last = r#"{"lastContainerStatuses":{"main":{"imageID":"old"}}}"#;
    let running = |id: &str| {
        let mut pod = state(last);
        let status = json!({"name": "main", "image": "busybox:1.35", "imageID": id, "ready": true});
        super::fixture::merge(&mut pod, &json!({"status": {"containerStatuses": [status]}}));
        obstacle(&pod)
    };
    assert_ne!(running("old"), "");
    assert_eq!(running("new"), "");
    // Where all images have digests, these show it.
    let digests = state("{");
    assert_eq!(images(&["a@sha256:11"], &["a@sha256:11"], &digests), "");
}

#[test]
fn sidecars_must_run_the_images_that_they_were_given() {
    let with = |list: &str, state: &str, injected: &str, running: (&str, &str)| {
        obstacle(&json!({
            "metadata": {"annotations": {
                "kruise.io/sidecarset-injected-list": list,
                "kruise.io/sidecarset-inplace-update-state": state,
            }},
            "spec": {"containers": [
                {"name": "main", "image": "busybox:1.36"},
                {"name": "log", "image": "log:2", "env": [{"name": "IS_INJECTED", "value": injected}]},
            ]},
            "status": {"containerStatuses": [{"name": "log", "image": running.0, "imageID": running.1}]},
        }))
    };
    let state = r#"{"logs":{"lastContainerStatuses":{"log":{"imageID":"old"}}}}"#;
    let stale = "sidecar log does not run its image yet";
    assert_eq!(with("logs,mesh", state, "true", ("log:1", "old")), stale);
    assert_eq!(with("logs", state, "true", ("log:1", "new")), "");
    assert_eq!(with("logs", state, "true", ("docker.io/library/log:2", "old")), "");
    assert_eq!(with("mesh", state, "true", ("log:1", "old")), "");
    assert_eq!(with("logs", state, "false", ("log:1", "old")), "");
    assert_ne!(with("logs", "{", "true", ("log:1", "old")), "");
    assert_eq!(with("logs", "{", "false", ("log:1", "old")), "");
}
