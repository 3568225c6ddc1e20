//! Pods that Pod Security refuses for what their subset adds
//! (docs/behaviour/workloadspread.md#refused-requests).

use super::*;
use crate::chronicle::Chronicle;
use kit::wait_within;
use std::time::Duration;

const REPLICA_SET: (&str, &str) = ("apps/v1", "ReplicaSet");

/// One Pod at most comes into `a`, and gets what the level `baseline` forbids.
fn on_host_network() -> Value {
    let mut subsets = first(1);
    subsets[0]["patch"] = json!({"spec": {"hostNetwork": true}});
    subsets
}

/// Sets the level of the Pod Security Standards that the namespace of the test enforces, and waits until it is in force.
async fn enforce(field: &Field, level: &str) {
    let namespace = format!("/api/v1/namespaces/{}", field.shop.namespace);
    let namespace = Stored::existing(&field.shop.client, namespace, Value::Null);
    namespace.label("pod-security.kubernetes.io/enforce", level).await;
    let probe = field.shop.pod("probe").with("/spec/hostNetwork", true);
    wait_for(&format!("the level {level} to be in force"), async || {
        match create(&field.shop.client, probe.clone(), "?dryRun=All").await {
            (201, _) if level == "privileged" => Ok(()),
            answer @ (403, _)
                if message(&answer).contains(&format!("violates PodSecurity \"{level}:latest\"")) =>
            {
                Ok(())
            }
            answer => Err(answer),
        }
    })
    .await;
}

/// The list of `a`, once `holds` accepts it.
async fn first_list(field: &Field, spread: &Stored, what: &str, holds: impl Fn(&Value) -> bool) {
    field.status(spread, what, |status| holds(&versioned(status, IGNORED)[0])).await;
}

#[tokio::test]
async fn scenario_44_a_clone_set_whose_pod_is_refused_has_its_slot_back_at_once() {
    let field = Field::open("ws-baseline").await;
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let spread = field.divide(field.spread(CLONESET, on_host_network())).await;
    set.patch(&json!({"spec": {"replicas": 2}})).await;
    field.placed(&[("a", 1), ("b", 1)]).await;
    let pods = field.ready(2).await;
    field.totals(&spread, &[("a", 1, 0), ("b", 1, -1)]).await;
    enforce(&field, "baseline").await;
    let chronicle = Chronicle::begin(&field.shop.client, &field.shop.namespace).await;
    set.patch(&json!({"spec": {"replicas": 3}})).await;
    field.placed(&[("a", 1), ("b", 2)]).await;

    let one = pods.iter().find(|pod| subset(pod) == "a").unwrap();
    field.pod(name(one)).deleted().await;
    // A Pod without its record would have come into `b` at the second try.
    let refused = field.reported("CloneSet", "FailedCreate", 4).await;
    assert!(refused.iter().all(|note| note.contains("violates PodSecurity")), "{refused:#?}");
    wait_within(Duration::from_secs(10), "the slot to be free", async || {
        let status = spread.get().await.1["status"].clone();
        let a = &versioned(&status, IGNORED)[0];
        if a["creatingPods"].is_null() && a["missingReplicas"] == 1 { Ok(()) } else { Err(status) }
    })
    .await;
    field.placed(&[("b", 2)]).await;

    enforce(&field, "privileged").await;
    field.placed(&[("a", 1), ("b", 2)]).await;
    let (_, most) = chronicle.range(|pods| pods.iter().filter(|pod| subset(pod) == "b").count()).await;
    assert_eq!(most, 2, "no Pod came into `b` for one that was refused");
    assert!(
        field.pods().await.iter().all(|pod| (subset(pod) == "a") == (pod["spec"]["hostNetwork"] == true))
    );
}

#[tokio::test]
async fn scenario_45_where_a_subset_is_required_no_pod_comes_for_one_that_is_refused() {
    let field = Field::open("ws-restricted").await;
    enforce(&field, "restricted").await;
    let chronicle = Chronicle::begin(&field.shop.client, &field.shop.namespace).await;
    let subsets = |max: i32| {
        let patch = json!({"spec": {"securityContext": {"runAsNonRoot": false}}});
        json!([{"name": "a", "maxReplicas": max, "patch": patch}])
    };
    let required = json!({"kutter.io/require-subset": "true"});
    let spread = field.spread(REPLICA_SET, subsets(1)).with("/metadata/annotations", required);
    let spread = field.divide(spread).await;
    // The template alone meets the level.
    let context = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let container = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let set = field
        .web(REPLICA_SET)
        .replicas(2)
        .with("/spec/template/spec/securityContext", context)
        .with("/spec/template/spec/containers/0/securityContext", container);
    let set = field.create(set).await;
    let refused = field.reported("ReplicaSet", "FailedCreate", 2).await;
    let says = |words: &str| refused.iter().any(|note| note.contains(words));
    assert!(says("violates PodSecurity \"restricted:latest\": runAsNonRoot != true"), "{refused:#?}");
    assert!(says("no subset of WorkloadSpread ws takes the Pod"), "{refused:#?}");
    first_list(&field, &spread, "the slot to be taken", |a| a["creatingPods"].is_object()).await;

    enforce(&field, "privileged").await;
    field.event("CreatePodFailed").await;
    field.nudged(&set, 1).await;
    spread.patch(&json!({"spec": {"subsets": subsets(2)}})).await;
    field.nudged(&set, 2).await;
    let without = |pods: &[&Value]| {
        pods.iter().filter(|pod| pod["spec"]["securityContext"]["runAsNonRoot"] != false).count()
    };
    assert_eq!(chronicle.range(without).await, (0, 0), "each Pod has what its subset says");
}

#[tokio::test]
async fn scenario_46_a_pod_of_a_replica_set_comes_into_the_next_subset_for_one_that_is_refused() {
    let field = Field::open("ws-next").await;
    enforce(&field, "baseline").await;
    let spread = field.divide(field.spread(REPLICA_SET, on_host_network())).await;
    field.create(field.web(REPLICA_SET).replicas(1)).await;
    field.placed(&[("b", 1)]).await;
    let refused = field.reported("ReplicaSet", "FailedCreate", 1).await;
    assert!(refused.iter().all(|note| note.contains("violates PodSecurity")), "{refused:#?}");
    first_list(&field, &spread, "the slot to be taken", |a| {
        a["creatingPods"].as_object().is_some_and(|pods| pods.len() == 1) && a["missingReplicas"] == 0
    })
    .await;
    first_list(&field, &spread, "the slot to be free", |a| {
        a["creatingPods"].is_null() && a["missingReplicas"] == 1
    })
    .await;
}
