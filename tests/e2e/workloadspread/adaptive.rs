//! Pods that find no node.

use super::*;
use crate::chronicle::Chronicle;

/// A WorkloadSpread whose first subset has no nodes.
fn unreachable(field: &Field, strategy: Value) -> Object {
    let subsets =
        json!([{"name": "a", "maxReplicas": 2, "requiredNodeSelector": zone("none")}, {"name": "b"}]);
    field.spread(CLONESET, subsets).with("/spec/scheduleStrategy", strategy)
}

fn schedulable(status: &Value, position: usize) -> (&Value, &Value) {
    let condition = &status["subsetStatuses"][position]["conditions"][0];
    (&condition["status"], &condition["reason"])
}

#[tokio::test]
async fn scenario_28_pods_that_find_no_node_are_replaced_in_the_next_subset() {
    let field = Field::open("ws-adaptive").await;
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let strategy = json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 20}});
    let spread = field.divide(unreachable(&field, strategy)).await;
    let status = spread.get().await.1["status"].clone();
    assert_eq!(schedulable(&status, 0), (&json!("True"), &json!("Sufficient")));
    let chronicle = Chronicle::begin(&field.shop.client, &field.shop.namespace).await;
    set.patch(&json!({"spec": {"replicas": 2}})).await;
    field.placed(&[("b", 2)]).await;
    let (_, most) = chronicle.range(|pods| pods.iter().filter(|pod| subset(pod) == "a").count()).await;
    assert_eq!(most, 2, "they were in the first subset before");
    let status = spread.get().await.1["status"].clone();
    assert_eq!(schedulable(&status, 0), (&json!("False"), &json!("PodUnschedulable")));
    assert_eq!(schedulable(&status, 1), (&json!("True"), &json!("Sufficient")));
    field.ready(2).await;
    // While the subset is left out, new Pods pass it by, though none was left in between.
    set.patch(&json!({"spec": {"replicas": 0}})).await;
    field.placed(&[]).await;
    field.totals(&spread, &[("a", 0, 2), ("b", 0, -1)]).await;
    set.patch(&json!({"spec": {"replicas": 2}})).await;
    field.placed(&[("b", 2)]).await;
    field.ready(2).await;
}
