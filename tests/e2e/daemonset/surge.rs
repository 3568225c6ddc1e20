//! Rollouts that start the new Pod of a Node before the old one ends (docs/behaviour/daemonset.md#surge).

use std::collections::BTreeMap;

use kit::fake_nodes;
use serde_json::{Value, json};

use super::{asked, complete, launch, node, pod_on, rolling};
use crate::support::fleet::{Fleet, LIFECYCLE_STATE, NEW, OLD, image, is_ready, label, name};

fn surge(count: u32) -> Value {
    json!({"maxSurge": count, "maxUnavailable": 0})
}

/// Per Node: how many Pods stay.
fn per_node(pods: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        *counts.entry(node(pod)).or_default() += 1;
    }
    counts
}

/// Scenario 24.
#[tokio::test]
async fn no_node_is_without_an_available_pod() {
    let fleet = launch(asked().await, "daemonset-surge", 5, |set| rolling(set, surge(2))).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    complete(&fleet).await;
    fleet.wait_pods("the old Pods to be gone", |pods| pods.len() == 5).await;
    for moment in chronicle.moments().await {
        let staying = || moment.values().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let served: BTreeMap<String, ()> =
            staying().filter(|pod| is_ready(pod)).map(|pod| (node(pod), ())).collect();
        assert_eq!(served.len(), 5, "each Node is served");
        let all: Vec<Value> = staying().map(|pod| (**pod).clone()).collect();
        assert!(per_node(&all).values().filter(|count| **count > 1).count() <= 2);
    }
}

/// Scenarios 25 and 42.
#[tokio::test]
async fn the_old_pod_waits_until_the_new_one_is_available_also_while_paused() {
    let fleet = launch(asked().await, "daemonset-surge-wait", 2, |set| {
        rolling(set, surge(1)).with("/spec/minReadySeconds", 1)
    })
    .await;
    let template = json!({
        "metadata": {"annotations": {fake_nodes::READY_AFTER: "never"}},
        "spec": {"containers": [{"name": "main", "image": NEW}]},
    });
    fleet.change(json!({"template": template})).await;
    fleet.wait_pods("a second Pod on a Node", |pods| pods.len() == 3).await;
    fleet.change_rolling(json!({"paused": true})).await;
    fleet.settled().await;
    let pods = fleet.pods().await;
    assert_eq!(pods.len(), 3, "the new one is not available yet");
    let new = pods.iter().find(|pod| image(pod) == NEW).unwrap();
    fleet.annotate(&name(new), fake_nodes::READY_AFTER, "0").await;
    let pods = fleet.wait_pods("the old one to go", |pods| pods.len() == 2).await;
    assert_eq!(pods.iter().filter(|pod| image(pod) == NEW).count(), 1);
    fleet.settled().await;
    assert_eq!(per_node(&fleet.pods().await).len(), 2, "no further Node has begun");
}

/// Scenario 26.
#[tokio::test]
async fn a_node_whose_pod_serves_nobody_needs_no_surge() {
    let fleet = launch(asked().await, "daemonset-surge-broken", 2, |set| {
        rolling(set, surge(1)).template_annotation("example.com/a", "b")
    })
    .await;
    let pod = pod_on(&fleet, 0).await;
    fleet.annotate(&name(&pod), fake_nodes::READY_AFTER, "never").await;
    fleet.observed("the Pod to be not ready", |set| set["status"]["numberReady"] == 1).await;
    fleet.roll(NEW).await;
    complete(&fleet).await;
    fleet.wait_pods("the old Pods to be gone", |pods| pods.len() == 2 && no_old(pods)).await;
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
