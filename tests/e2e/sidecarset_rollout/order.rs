//! Which Pods go first.

use kit::builders::Object;
use kit::fake_nodes;
use serde_json::{Value, json};

use super::{Fleet, NEW, image_of, is_ready};

const LABELLED: [&str; 3] = ["web-2", "web-3", "web-7"];

/// Updates all Pods one after the other and gives their names in that order.
async fn order(fleet: &Fleet, count: usize) -> Vec<String> {
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW, json!({})).await;
    fleet.wait_status("all Pods to be updated", json!({"updatedReadyPods": count})).await;
    let away = |pods: &[&Value]| pods.iter().filter(|pod| !is_ready(pod)).count();
    assert_eq!(chronicle.range(away).await.1, 1);
    let order = chronicle.order(|pod| image_of(pod, "log") == NEW).await;
    assert_eq!(order.len(), count);
    order
}

/// Ten Pods, of which three have the label.
async fn labelled(prefix: &str, strategy: Value) -> Fleet {
    let fleet = Fleet::open(prefix, |set: Object| set.with("/spec/updateStrategy", strategy)).await;
    for number in 0..10 {
        let name = format!("web-{number}");
        let pod = fleet.shop.pod(&name).annotation(fake_nodes::READY_AFTER, "50");
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
