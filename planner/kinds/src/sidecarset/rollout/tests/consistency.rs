use std::sync::Arc;

use api::annotations::{SIDECARSET_IN_PLACE_UPDATE_STATE, SIDECARSET_REPLACED_CONTAINERS};

use super::fixture::*;
use crate::sidecarset::rollout::rollout_pod::View;
use pod::observed::ObservedPod;

/// The view of a Pod whose sidecar should run `spec`, where the runtime reports `image` and `image_id`,
/// and `before` is what it ran before.
fn view(spec: &str, image: &str, image_id: &str, before: Option<&str>) -> View {
    let set = Wanted::cold(spec).set();
    let mut pod = injected_pod(&set, "a");
    pod.status.container_statuses[1].image = image.into();
    pod.status.container_statuses[1].image_id = image_id.into();
    if let Some(before) = before {
        annotate(&mut pod, SIDECARSET_IN_PLACE_UPDATE_STATE, before);
    }
    View::of(&set, &pod)
}

fn annotate(pod: &mut ObservedPod, key: &str, value: &str) {
    pod.metadata.annotations = pod.metadata.annotations.iter().chain([(key, value)]).collect();
}

fn state(image_id: &str) -> String {
    format!(r#"{{"side":{{"revision":"r","lastContainerStatuses":{{"log":{{"imageID":"{image_id}"}}}}}}}}"#)
}

#[test]
fn an_update_is_done_when_the_runtime_reports_another_image_or_the_wanted_one() {
    let before = state("old");
    for (spec, image, image_id, before, expected) in [
        ("log:2", "log:1", "old", Some(before.as_str()), false),
        ("log:2", "log:1", "new", Some(&before), true),
        ("log:2", "log:2", "old", Some(&before), true),
        ("log:2", "docker.io/library/log:2", "old", Some(&before), true),
        ("log:2", "docker.io/library/log:1", "old", Some(&before), false),
        ("log:2", "log:1", "old", None, true),
        ("log:2", "log:1", "old", Some("oops"), false),
        ("log:2", "log:1", "old", Some(r#"{"other":{}}"#), true),
        ("log:2", "log:1", "old", Some(r#"{"side":{"lastContainerStatuses":{"log":{}}}}"#), true),
        ("log@sha256:11", "x", "docker-pullable://log@sha256:11", None, true),
        ("log@sha256:11", "x", "docker.io/library/log@sha256:11", None, true),
        ("docker.io/library/log@sha256:11", "x", "log@sha256:11", None, true),
        ("log@sha256:11", "x", "log@sha256:22", None, false),
        ("log@sha256:11", "x", "other@sha256:11", None, false),
        ("log@sha256:11", "x", "", None, false),
    ] {
        let view = view(spec, image, image_id, before);
        assert_eq!(view.consistent, expected, "{spec} {image} {image_id} {before:?}");
        assert_eq!(view.updating.is_none(), expected);
    }
}

#[test]
fn an_update_to_the_same_content_is_done_when_the_container_was_replaced() {
    let set = Wanted::cold("log:2").set();
    let mut pod = injected_pod(&set, "a");
    pod.status.container_statuses[1].image = "sha256:0a".into();
    annotate(&mut pod, SIDECARSET_IN_PLACE_UPDATE_STATE, &state(&image_id("log:2")));
    assert!(!View::of(&set, &pod).consistent);
    for (image, container_id, expected) in [
        ("log:2", "containerd://log-0", false),
        ("log:2", "containerd://older", true),
        ("log:1", "containerd://older", false),
    ] {
        let mut pod = pod.clone();
        let replaced = format!(r#"{{"log":{{"image":"{image}","containerID":"{container_id}"}}}}"#);
        annotate(&mut pod, SIDECARSET_REPLACED_CONTAINERS, &replaced);
        assert_eq!(View::of(&set, &pod).consistent, expected, "{image} {container_id}");
        pod.status.container_statuses[1].container_id = "".into();
        assert!(!View::of(&set, &pod).consistent, "no container runs");
    }
}

#[test]
fn a_pod_with_too_few_statuses_is_not_consistent() {
    let set = Wanted::cold("log:1").set();
    let mut pod = injected_pod(&set, "a");
    pod.status.container_statuses = pod.status.container_statuses[1..].into();
    assert!(!View::of(&set, &pod).consistent);
}

#[test]
fn a_pod_is_ready_while_it_runs_and_stays() {
    let set = Wanted::cold("log:1").set();
    let pod = injected_pod(&set, "a");
    assert!(View::of(&set, &pod).ready);
    let changed = |change: &dyn Fn(&mut ObservedPod)| {
        let mut pod = pod.clone();
        change(&mut pod);
        View::of(&set, &pod).ready
    };
    assert!(!changed(&|pod| pod.status.phase = "Pending".into()));
    assert!(!changed(&|pod| set_ready(pod, false, 1)));
    assert!(!changed(&|pod| pod.metadata.deletion_timestamp = Some(at(0).into())));
}

#[test]
fn a_new_tag_of_the_same_content_does_not_stop_the_rollout() {
    // Both tags have one image, and the runtime continues to report the first tag.
    let set = Wanted::cold("log:1").set();
    let mut cluster = fleet(&set, 2);
    let newer = Wanted::cold("log:1-again").set();
    for name in ["p00", "p01"] {
        let plan = cluster.round(&newer);
        assert_eq!(plan.pods.len(), 1);
        assert!(cluster.plan(&newer).pods.is_empty(), "{name} has not restarted");
        cluster.change(name, |pod| pod.status.container_statuses[1].container_id = "containerd://new".into());
    }
    let plan = cluster.plan(&newer);
    assert!(plan.pods.is_empty() && plan.status.unwrap().contains(r#""updatedReadyPods":2"#));
    assert!(
        cluster.pods.iter().all(|pod: &Arc<ObservedPod>| &*pod.spec.containers[1].image == "log:1-again")
    );
}
