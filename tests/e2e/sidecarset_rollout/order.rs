//! Which Pods go first.

use kit::builders::Object;
use kit::{fake_nodes, wait_for};
use serde_json::{Value, json};

use super::{Fleet, NEW};

const LABELLED: [&str; 3] = ["web-2", "web-3", "web-7"];

/// Updates all Pods one after the other and gives their names in that order.
async fn order(fleet: &Fleet, count: usize) -> Vec<String> {
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

/// Ten Pods, of which three have the label. Each takes so long to become ready that it is seen to be
/// updated before the next one is.
async fn labelled(prefix: &str, strategy: Value) -> Fleet {
    let fleet = Fleet::open(prefix, |set: Object| set.with("/spec/updateStrategy", strategy)).await;
    for number in 0..10 {
        let name = format!("web-{number}");
        let pod = fleet.shop.pod(&name).annotation(fake_nodes::READY_AFTER, "500");
        let pod = if LABELLED.contains(&name.as_str()) { pod.label("gpu", "true") } else { pod };
        fleet.shop.admit(pod).await;
    }
    fleet.wait_status("ten ready Pods", json!({"readyPods": 10})).await;
    fleet
}

fn positions(names: &[String]) -> Vec<usize> {
    let found = names.iter().enumerate().filter(|(_, name)| LABELLED.contains(&name.as_str()));
    found.map(|(position, _)| position + 1).collect()
}

/// Scenario 20.
#[tokio::test]
async fn pods_of_more_weight_go_first() {
    let terms = json!([{"weight": 50, "matchSelector": {"matchLabels": {"gpu": "true"}}}]);
    let fleet = labelled("weight", json!({"priorityStrategy": {"weightPriority": terms}})).await;
    assert_eq!(positions(&order(&fleet, 10).await), [1, 2, 3]);
}

/// Scenario 20. One sort of ten Pods gives positions 1, 6 and 10; every round sorts anew what still waits,
/// so the second comes one position earlier, and the last one of its kind is not spread any more.
#[tokio::test]
async fn scattered_pods_are_spread_over_the_order() {
    let fleet = labelled("scatter", json!({"scatterStrategy": [{"key": "gpu", "value": "true"}]})).await;
    let found = positions(&order(&fleet, 10).await);
    assert!(matches!(found[..], [1, 5, last] if last > 5), "{found:?}");
}
