//! Lifecycle hooks hold Pods at their turns (docs/behaviour/lifecycle.md#lifecycle-hooks).

use kit::builders::Object;
use serde_json::{Value, json};

use super::{asked, in_place, launch, named, open, parallel};
use crate::support::fleet::{Fleet, LIFECYCLE_STATE, NEW, image, label};

const HOOK: &str = "example.com/hook";

/// A hook that every new Pod has.
fn hooked(set: Object, hook: &str) -> Object {
    let hook = json!({hook: {"labelsHandler": {HOOK: "true"}}});
    set.template_label(HOOK, "true").with("/spec/lifecycle", hook)
}

async fn in_state(fleet: &Fleet, pod: &str, state: &str) {
    let what = format!("{pod} to be {state}");
    fleet.wait_pod(pod, &what, |pod| label(pod, LIFECYCLE_STATE) == state).await;
}

/// Scenario 22.
#[tokio::test]
async fn hook_pre_delete_holds_pods_that_go() {
    let fleet =
        launch(asked().await, "statefulset-pre-delete", |set| hooked(set.replicas(3), "preDelete")).await;
    fleet.scale(1).await;
    in_state(&fleet, "web-2", "PreparingDelete").await;
    fleet.settled().await;
    assert_eq!(label(&fleet.pods().await[1], LIFECYCLE_STATE), "Normal", "one after another");
    fleet.scale(3).await;
    in_state(&fleet, "web-2", "Normal").await;
    fleet.complete().await;
    fleet.scale(1).await;
    in_state(&fleet, "web-2", "PreparingDelete").await;
    fleet.pod("web-2").label(HOOK, Value::Null).await;
    in_state(&fleet, "web-1", "PreparingDelete").await;
    fleet.pod("web-1").label(HOOK, Value::Null).await;
    named(&fleet, &["web-0"]).await;
    fleet.complete().await;
}

/// Scenario 23.
#[tokio::test]
async fn hook_pre_normal_holds_new_pods() {
    let fleet = open(asked().await, "statefulset-pre-normal", |set| {
        parallel(set.replicas(2))
            .with("/spec/lifecycle", json!({"preNormal": {"labelsHandler": {HOOK: "true"}}}))
    })
    .await;
    let status = fleet.status("both to be ready", json!({"readyReplicas": 2})).await;
    assert_eq!(status["availableReplicas"], 0);
    for pod in ["web-0", "web-1"] {
        in_state(&fleet, pod, "PreparingNormal").await;
        fleet.pod(pod).label(HOOK, "true").await;
        in_state(&fleet, pod, "Normal").await;
    }
    fleet.complete().await;
}

/// Scenario 24.
#[tokio::test]
async fn hook_in_place_update_holds_pods_before_and_after() {
    let fleet = launch(asked().await, "statefulset-in-place-hook", |set| {
        hooked(in_place(set.replicas(1)), "inPlaceUpdate")
    })
    .await;
    fleet.roll(NEW).await;
    in_state(&fleet, "web-0", "PreparingUpdate").await;
    fleet.settled().await;
    assert_ne!(image(&fleet.pods().await[0]), NEW);
    fleet.pod("web-0").label(HOOK, Value::Null).await;
    in_state(&fleet, "web-0", "Updated").await;
    assert_eq!(image(&fleet.pods().await[0]), NEW);
    fleet.pod("web-0").label(HOOK, "true").await;
    in_state(&fleet, "web-0", "Normal").await;
    fleet.complete().await;
}
