//! Pods that are deleted or evicted.

use std::time::Duration;

use kit::wait_within;

use super::*;

/// A CloneSet over a full subset `a` of three Pods, and the Pods.
async fn full(prefix: &str) -> (Field, Stored, Stored, Vec<Value>) {
    let field = Field::open(prefix).await;
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let spread = field.divide(field.spread(CLONESET, first(3))).await;
    set.patch(&json!({"spec": {"replicas": 3}})).await;
    let pods = field.ready(3).await;
    field.totals(&spread, &[("a", 3, 0), ("b", 0, -1)]).await;
    (field, set, spread, pods)
}

/// The record of a Pod that is on its way out.
fn leaving<'v>(status: &'v Value, pod: &str) -> &'v Value {
    &versioned(status, IGNORED)[0]["deletingPods"][pod]
}

#[tokio::test]
async fn scenarios_21_23_and_37_a_deleted_pod_gives_its_slot_back_at_once() {
    let (field, set, spread, pods) = full("ws-delete").await;
    let one = field.pod(name(&pods[0]));
    let before = spread.get().await.1;
    assert_eq!(one.delete_dry().await.0, 200);
    assert_eq!(field.evict(name(&pods[0]), json!({"dryRun": ["All"]})).await.0, 201);
    let dry = create(&field.shop.client, field.pod_of(&set.object, "dry"), "?dryRun=All").await;
    assert_eq!((dry.0, &dry.1["metadata"]["annotations"][MARK]), (201, &Value::Null));
    assert_eq!(spread.get().await.1["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);

    // The Pod stays while its finalizer does: its slot is free nevertheless.
    one.patch(&json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    one.deleted().await;
    field.placed(&[("a", 3)]).await;
    one.patch(&json!({"metadata": {"finalizers": null}})).await;
    field.totals(&spread, &[("a", 3, 0), ("b", 0, -1)]).await;

    spread.deleted().await;
    spread.gone().await;
    for pod in field.pods().await {
        assert_eq!(subset(&pod), "a");
    }
    let one = field.pods().await[0].clone();
    field.pod(name(&one)).deleted().await;
}

#[tokio::test]
async fn scenario_22_an_eviction_counts_as_a_deletion_until_it_is_known_to_be_refused() {
    let (field, _set, spread, pods) = full("ws-evict").await;
    assert_eq!(field.evict(name(&pods[0]), json!({})).await.0, 201);
    field.pod(name(&pods[0])).gone().await;
    field.placed(&[("a", 3)]).await;
    field.ready(3).await;
    // Nothing but the eviction is noted afterwards.
    field
        .status(&spread, "no Pod to be noted any more", |status| {
            let item = &versioned(status, IGNORED)[0];
            item["creatingPods"].is_null() && item["deletingPods"].is_null()
        })
        .await;
    let budget = object("policy/v1", "PodDisruptionBudget", "keep")
        .in_namespace(&field.shop.namespace)
        .with("/spec", json!({"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}));
    let budget = field.create(budget).await;
    wait_for("the budget to be counted", async || match budget.get().await.1 {
        budget if budget["status"]["currentHealthy"] == 3 => Ok(()),
        budget => Err(budget["status"].clone()),
    })
    .await;
    let kept = field.pods().await[0].clone();
    let refused = field.refused_eviction(name(&kept)).await;
    assert!(refused.contains("would violate the pod's disruption budget"), "{refused}");
    let status = spread.get().await.1["status"].clone();
    assert!(leaving(&status, name(&kept)).is_string(), "{status:#}");
    assert_eq!(versioned(&status, IGNORED)[0]["missingReplicas"], 1);
    wait_within(Duration::from_secs(60), "the record to be dropped", async || {
        let status = spread.get().await.1["status"].clone();
        let item = &versioned(&status, IGNORED)[0];
        if item["deletingPods"].is_null() && item["missingReplicas"] == 0 { Ok(()) } else { Err(status) }
    })
    .await;
    let words =
        format!("Pod {}/{} was expected to be deleted but it wasn't", field.shop.namespace, name(&kept));
    assert_eq!(field.event("DeletePodFailed").await, words);
}
