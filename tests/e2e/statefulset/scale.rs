//! How Pods come and go (docs/behaviour/statefulset.md#scale-step).

use serde_json::{Value, json};

use super::{asked, make_ready, named, never_ready, open, with_claim};
use crate::support::Stored;
use crate::support::fleet::{LIFECYCLE_STATE, REVISION, condition, label, name};

/// Scenarios 1 and 7.
#[tokio::test]
async fn ordered_pods_come_one_after_another_and_are_known_by_their_names() {
    let fleet = open(asked().await, "statefulset-ordered", |set| {
        never_ready(with_claim(set.replicas(3), "1Gi", "fast"))
    })
    .await;
    for ordinal in 0..3 {
        let names: Vec<String> = (0..=ordinal).map(|ordinal| format!("web-{ordinal}")).collect();
        named(&fleet, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        // The next reconcile comes with this change at the latest.
        let wanted = json!({"revisionHistoryLimit": 5 + ordinal});
        fleet.change(wanted).await;
        fleet.settled().await;
        assert_eq!(fleet.names().await, names, "the last one is not ready");
        make_ready(&fleet, &format!("web-{ordinal}")).await;
    }
    let status = fleet.complete().await;
    let pod = fleet.pods().await.remove(2);
    assert_eq!(label(&pod, REVISION), status["updateRevision"]);
    assert_eq!(label(&pod, "statefulset.kubernetes.io/pod-name"), "web-2");
    assert_eq!(label(&pod, "apps.kubernetes.io/pod-index"), "2");
    assert_eq!(label(&pod, LIFECYCLE_STATE), "Normal");
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-2"), &json!("db")));
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "www-web-2");
    let claims = fleet.claims().await;
    assert_eq!(claims.iter().map(name).collect::<Vec<_>>(), ["www-web-0", "www-web-1", "www-web-2"]);
    assert!(claims.iter().all(|claim| claim["metadata"]["ownerReferences"].is_null()));
    assert_eq!(
        fleet.event("SuccessfulCreate").await,
        "create Claim www-web-0 Pod web-0 in StatefulSet web success"
    );
}

/// Scenario 40.
#[tokio::test]
async fn a_quota_that_forbids_pods_is_reported() {
    let fleet = open(asked().await, "statefulset-quota", |set| set.replicas(0)).await;
    let quota = kit::builders::object("v1", "ResourceQuota", "pods")
        .in_namespace(&fleet.shop.namespace)
        .with("/spec", json!({"hard": {"pods": "0"}}));
    let quota = Stored::create(&fleet.shop.client, quota).await;
    let allow = async |pods: &str| {
        quota.patch_status(&json!({"hard": {"pods": pods}, "used": {"pods": "0"}})).await;
    };
    allow("0").await;
    crate::support::wait_quota(&fleet.shop.client, fleet.shop.pod("probe")).await;
    fleet.scale(1).await;
    let reported = |set: &Value| condition(set, "FailedCreatePod").clone();
    // Before the API server knows the status of the quota it refuses in other words.
    let is_exceeded =
        |set: &Value| reported(set)["message"].as_str().is_some_and(|text| text.contains("exceeded quota"));
    let set = fleet.observed("the trouble to be told", is_exceeded).await;
    assert_eq!(reported(&set)["status"], "True");
    let message = reported(&set)["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("StatefulPodControl failed to create Pod error: "), "{message}");
    let event = fleet.event("FailedCreate").await;
    assert!(event.starts_with("create Pod web-0 in StatefulSet web failed error: "), "{event}");
    let output = fleet.explained().await;
    assert_eq!(output.status.code(), Some(2), "{}", output.stderr);
    let is_reported =
        |line: &str| line.contains("status: FailedCreatePod, ") && line.contains("exceeded quota");
    assert!(output.stdout.lines().any(is_reported), "{}", output.stdout);
    quota.patch(&json!({"spec": {"hard": {"pods": "9"}}})).await;
    allow("9").await;
    fleet.complete().await;
    fleet.observed("the trouble to be over", |set| reported(set).is_null()).await;
}
