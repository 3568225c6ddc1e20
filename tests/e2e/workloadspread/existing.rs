//! Pods that were there before their WorkloadSpread.

use super::*;

const REPLICA_SET: (&str, &str) = ("apps/v1", "ReplicaSet");

/// A ReplicaSet with two Pods in zone a, one in zone b and one that finds no node. It makes the Pods itself, and a gate
/// holds each until it has a zone: controllers of Kubernetes may learn of a ReplicaSet before they learn of a Pod that
/// it could adopt.
async fn running(prefix: &str) -> Field {
    let field = Field::open(prefix).await;
    let gates = json!([{"name": "kutter.test/zone"}]);
    let web = field.web(REPLICA_SET).replicas(4);
    field.create(web.with("/spec/template/spec/schedulingGates", gates)).await;
    let pods = wait_for("the Pods", async || {
        let pods = field.pods().await;
        if pods.len() == 4 { Ok(pods) } else { Err(field.summary().await) }
    })
    .await;
    for (pod, zone) in pods.iter().zip(["a", "a", "b", "none"]) {
        let spec = json!({"nodeSelector": {"zone": zone}, "schedulingGates": null});
        field.pod(name(pod)).patch(&json!({"spec": spec})).await;
    }
    wait_for("three Pods to be ready", async || {
        let ready = field.pods().await.iter().filter(|pod| is_ready(pod)).count();
        if ready == 3 { Ok(()) } else { Err(field.summary().await) }
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
