//! Which Pods go first.

use kit::builders::Object;
use kit::{fake_nodes, wait_for};
use serde_json::{Value, json};

use super::{Fleet, NEW};

/// Updates all Pods one after the other and gives their names in that order. Each takes so long to become
/// ready that it is seen before the next one starts.
async fn order(fleet: &Fleet, count: usize) -> Vec<String> {
    for pod in fleet.pods().await {
        let slow = json!({"metadata": {"annotations": {fake_nodes::READY_AFTER: "400"}}});
        fleet.pod(&super::name(&pod)).patch(&slow).await;
    }
    fleet.roll(NEW, json!({})).await;
    let mut names: Vec<String> = Vec::new();
    wait_for("all Pods to be updated", async || {
        let mut new = fleet.with_image(NEW).await;
        new.retain(|name| !names.contains(name));
        assert!(new.len() <= 1, "{new:?} after {names:?}");
        names.extend(new);
        if names.len() == count { Ok(()) } else { Err(names.clone()) }
    })
    .await;
    names
}

/// Ten Pods, of which three have the label.
async fn labelled(prefix: &str, strategy: Value) -> Fleet {
    let fleet = Fleet::launch(prefix, 10, |set: Object| set.with("/spec/updateStrategy", strategy)).await;
    for pod in ["web-2", "web-3", "web-7"] {
        fleet.pod(pod).label("gpu", "true").await;
    }
    fleet
}

fn positions(names: &[String]) -> Vec<usize> {
    let labelled = ["web-2", "web-3", "web-7"];
    let found = names.iter().enumerate().filter(|(_, name)| labelled.contains(&name.as_str()));
    found.map(|(position, _)| position + 1).collect()
}

/// Scenario 20.
#[tokio::test]
async fn pods_of_more_weight_go_first() {
    let terms = json!([{"weight": 50, "matchSelector": {"matchLabels": {"gpu": "true"}}}]);
    let fleet = labelled("weight", json!({"priorityStrategy": {"weightPriority": terms}})).await;
    assert_eq!(positions(&order(&fleet, 10).await), [1, 2, 3]);
}

/// Scenario 20.
#[tokio::test]
async fn scattered_pods_are_spread_over_the_order() {
    let fleet = labelled("scatter", json!({"scatterStrategy": [{"key": "gpu", "value": "true"}]})).await;
    assert_eq!(positions(&order(&fleet, 10).await), [1, 6, 10]);
}
