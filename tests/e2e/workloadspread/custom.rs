//! Custom workloads.

use super::*;

const JOB: (&str, &str) = ("kubeflow.org/v1", "TFJob");

fn job(field: &Field, spec: Value) -> Object {
    object(JOB.0, JOB.1, "web").in_namespace(&field.shop.namespace).with("/spec", spec)
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
    field.divide(field.spread(JOB, first(1))).await;
    for number in 0..2 {
        field.create(field.pod_of(&group.object, &format!("worker-{number}"))).await;
    }
    field.placed(&[("a", 1), ("b", 1)]).await;
}
