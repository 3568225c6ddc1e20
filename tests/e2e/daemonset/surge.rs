//! Rollouts that start the new Pod of a Node before the old one ends (docs/behaviour/daemonset.md#surge).

use serde_json::{Value, json};

use super::{asked, launch, rolling};
use crate::support::fleet::{Fleet, LIFECYCLE_STATE, NEW, OLD, image, is_ready, label, name};

fn surge(count: u32) -> Value {
    json!({"maxSurge": count, "maxUnavailable": 0})
}

fn no_old(pods: &[Value]) -> bool {
    pods.iter().all(|pod| image(pod) != OLD)
}

/// Scenario 41.
#[tokio::test]
async fn a_hook_holds_the_old_pod_beside_the_new_one() {
    let fleet: Fleet = launch(asked().await, "daemonset-surge-hook", 1, |set| {
        rolling(set, surge(1))
            .template_label("block", "true")
            .with("/spec/lifecycle", json!({"preDelete": {"labelsHandler": {"block": "true"}}}))
    })
    .await;
    fleet.roll(NEW).await;
    let pods = fleet
        .wait_pods("the old Pod to be held", |pods| {
            let held = pods.iter().any(|pod| label(pod, LIFECYCLE_STATE) == "PreparingDelete");
            held && pods.iter().any(|pod| image(pod) == NEW && is_ready(pod))
        })
        .await;
    assert_eq!(pods.len(), 2);
    let old = pods.iter().find(|pod| image(pod) == OLD).unwrap();
    fleet.pod(&name(old)).patch(&json!({"metadata": {"labels": {"block": null}}})).await;
    fleet.wait_pods("the old Pod to be gone", |pods| pods.len() == 1 && no_old(pods)).await;
}
