//! Pods that were there before their WorkloadSpread.

use super::*;

const REPLICA_SET: (&str, &str) = ("apps/v1", "ReplicaSet");

/// A ReplicaSet with two Pods in zone a, one in zone b and one that finds no node.
async fn running(prefix: &str) -> Field {
    let field = Field::open(prefix).await;
    for (name, zone) in [("web-aa", "a"), ("web-ab", "a"), ("web-ba", "b"), ("web-none", "none")] {
        let pod =
            pod(name).in_namespace(&field.shop.namespace).label("app", "web").container("main", "nginx:1.25");
        field
            .create(pod.with("/spec/nodeSelector", json!({"field": field.shop.namespace, "zone": zone})))
            .await;
    }
    field.create(field.web(REPLICA_SET).replicas(4)).await;
    wait_for("the Pods to have their owner, and three to be ready", async || {
        let pods = field.pods().await;
        let owned = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"].is_array()).count();
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        if (owned, ready, pods.len()) == (4, 3, 4) { Ok(()) } else { Err(field.summary().await) }
    })
    .await;
    field
}

fn zones(patch: Value) -> Value {
    let mut subsets = json!([{"name": "a", "maxReplicas": 1, "requiredNodeSelector": zone("a")}, {"name": "b", "requiredNodeSelector": zone("b")}]);
    subsets[0]["patch"] = patch;
    subsets
}

#[tokio::test]
async fn scenarios_25_and_26_pods_are_adopted_by_their_zone_with_the_labels_of_the_patch() {
    let field = running("ws-adopt").await;
    let patch = json!({"metadata": {"labels": {"subset": "a"}}});
    let spread = field.divide(field.spread(REPLICA_SET, zones(patch))).await;
    field.costs("a", &["200", "-100"]).await;
    field.costs("b", &["100"]).await;
    field.costs("", &["-300"]).await;
    field.totals(&spread, &[("a", 2, 0), ("b", 1, -1)]).await;
    for pod in field.pods().await {
        let labelled = pod["metadata"]["labels"]["subset"] == "a";
        assert_eq!(labelled, subset(&pod) == "a", "{pod:#}");
    }
}

#[tokio::test]
async fn scenarios_26_and_27_labels_are_left_out_where_that_is_asked_for_and_weights_choose() {
    let field = running("ws-adopt").await;
    let preferring = |weight: i32| json!([{"weight": weight, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]);
    let patch = json!({"metadata": {"labels": {"subset": "b"}}});
    let subsets = json!([{"name": "a", "preferredNodeSelector": preferring(10)}, {"name": "b", "preferredNodeSelector": preferring(90), "patch": patch}]);
    let spread = field
        .spread(REPLICA_SET, subsets)
        .annotation("workloadspread.kruise.io/ignore-patch-existing-pods-metadata", "true");
    let spread = field.divide(spread).await;
    field.totals(&spread, &[("a", 0, -1), ("b", 3, -1)]).await;
    for pod in field.pods().await {
        assert!(pod["metadata"]["labels"]["subset"].is_null(), "{pod:#}");
    }
}

#[tokio::test]
async fn scenario_39_marks_of_earlier_releases_count() {
    let field = running("ws-old").await;
    let mark = json!({"metadata": {"annotations": {MARK: r#"{"Name":"ws","Subset":"b"}"#}}});
    for name in ["web-aa", "web-ab", "web-ba"] {
        field.pod(name).patch(&mark).await;
    }
    let spread = field.divide(field.spread(REPLICA_SET, first(3))).await;
    field.totals(&spread, &[("a", 0, 3), ("b", 3, -1)]).await;
}
