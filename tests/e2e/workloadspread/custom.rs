//! Custom workloads.

use super::*;

const JOB: (&str, &str) = ("kubeflow.org/v1", "TFJob");

fn job(field: &Field, spec: Value) -> Object {
    object(JOB.0, JOB.1, "web").in_namespace(&field.shop.namespace).with("/spec", spec)
}

/// Creates a Pod that comes into a subset: anew where admission could not read its owner in time.
async fn divided(field: &Field, pod: &Object) {
    wait_for("the Pod to come into a subset", async || {
        let created = field.create(pod.clone()).await;
        if !subset(&created.object).is_empty() {
            return Ok(());
        }
        created.delete_with(&json!({"gracePeriodSeconds": 0})).await;
        created.gone().await;
        Err(created.object)
    })
    .await;
}

#[tokio::test]
async fn scenarios_33_and_34_a_part_of_a_custom_workload_is_divided() {
    let field = Field::open("ws-custom").await;
    let job = field.create(job(&field, json!({"replicaSpecs": {"Worker": {"replicas": 10}}}))).await;
    let filter = json!({"selector": {"matchLabels": {"role": "worker"}}, "replicasPathList": ["spec.replicaSpecs.Worker.replicas"]});
    let spread = field.spread(JOB, first("30%")).with("/spec/targetFilter", filter);
    let spread = field.divide(spread).await;
    let server = field.create(field.pod_of(&job.object, "ps").label("role", "ps")).await;
    assert!(server.object["metadata"]["annotations"][MARK].is_null());
    for number in 0..5 {
        field.create(field.pod_of(&job.object, &format!("worker-{number}")).label("role", "worker")).await;
    }
    field.placed(&[("", 1), ("a", 3), ("b", 2)]).await;
    field.totals(&spread, &[("a", 3, 0), ("b", 2, -1)]).await;

    // A path that leads nowhere fails the reconcile, and the status stays.
    let before = spread.get().await.1["status"].clone();
    let broken = json!({"spec": {"targetFilter": {"replicasPathList": ["spec.none"]}}});
    let changed = spread.patch(&broken).await;
    field.create(field.pod_of(&job.object, "worker-9").label("role", "worker")).await;
    let now = spread.get().await.1;
    assert_ne!(changed["metadata"]["generation"], now["status"]["observedGeneration"]);
    assert_eq!(before["subsetStatuses"], now["status"]["subsetStatuses"]);
    let good = json!({"spec": {"targetFilter": {"replicasPathList": ["spec.replicaSpecs.Worker.replicas"]}}});
    spread.patch(&good).await;
    field.totals(&spread, &[("a", 3, 0), ("b", 3, -1)]).await;
}

#[tokio::test]
async fn scenario_35_pods_are_found_through_what_lies_between() {
    let field = Field::open("ws-chain").await;
    let job = field.create(job(&field, json!({}))).await;
    let group = object("kubeflow.org/v1", "TFGroup", "web-workers").in_namespace(&field.shop.namespace);
    let group = field.create(group.controlled_by(&job.object)).await;
    let spread = field.divide(field.spread(JOB, first(1))).await;
    for number in 0..2 {
        divided(&field, &field.pod_of(&group.object, &format!("worker-{number}"))).await;
    }
    field.placed(&[("a", 1), ("b", 1)]).await;
    // They are counted: no record has to hold the slot.
    field.totals(&spread, &[("a", 1, 0), ("b", 1, -1)]).await;
    let status = spread.get().await.1["status"].clone();
    assert!(versioned(&status, IGNORED)[0]["creatingPods"].is_null(), "{status:#}");
    divided(&field, &field.pod_of(&group.object, "worker-2")).await;
    field.placed(&[("a", 1), ("b", 2)]).await;
    field.totals(&spread, &[("a", 1, 0), ("b", 2, -1)]).await;
}

#[tokio::test]
async fn scenarios_7_and_33_a_share_of_a_custom_workload_follows_its_scale() {
    let field = Field::open("ws-scaled").await;
    let kind = ("kubeflow.org/v1", "TFScaled");
    let job = object(kind.0, kind.1, "web").in_namespace(&field.shop.namespace);
    let job = field.create(job.with("/spec", json!({"size": 0}))).await;
    // Of the version only the group counts.
    let spread = field.divide(field.spread(("kubeflow.org/v9", kind.1), first("30%"))).await;
    field.totals(&spread, &[("a", 0, 0), ("b", 0, -1)]).await;
    // Slots are there before the controller has observed the number, and then it observes it.
    job.patch(&json!({"spec": {"size": 10}})).await;
    for number in 0..5 {
        field.create(field.pod_of(&job.object, &format!("worker-{number}"))).await;
    }
    field.placed(&[("a", 3), ("b", 2)]).await;
    field.totals(&spread, &[("a", 3, 0), ("b", 2, -1)]).await;
}
