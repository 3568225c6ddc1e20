//! How far and how fast a rollout proceeds.

use kit::fake_nodes;
use serde_json::{Value, json};

use super::{
    Fleet, NEW, asked, clone_set, condition, in_place, is_available, restarts, uids, with_claim, with_image,
};

fn available(pods: &[&Value]) -> usize {
    pods.iter().filter(|pod| is_available(pod)).count()
}

fn count(pods: &[&Value]) -> usize {
    pods.len()
}

/// Scenario 9: a v1alpha1 client, whose object may be changed in v1beta1 too
/// (docs/behaviour/cloneset.md#validation).
#[tokio::test]
async fn surge_alone_keeps_everything_available() {
    let options = fake_nodes::Options::nodes(2).binding_pods();
    let strategy = json!({"type": "ReCreate", "maxUnavailable": 0, "maxSurge": 1});
    let fleet = Fleet::found(asked().await, "cloneset-surging", options, |shop| {
        clone_set(shop, "v1alpha1").replicas(5).with("/spec/updateStrategy", strategy)
    })
    .await;
    fleet.complete().await;
    let before = fleet.pods().await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    fleet.complete().await;
    assert_eq!(chronicle.range(count).await, (5, 6));
    assert_eq!(chronicle.range(available).await.0, 5);
    let after = fleet.pods().await;
    assert_eq!((after.len(), with_image(&after, NEW)), (5, 5));
    assert!(!uids(&before).iter().any(|uid| uids(&after).contains(uid)));
    fleet.event("SuccessfulUpdatePodReCreate").await;
}

/// Scenario 19, without gate: claims stay as they are.
#[tokio::test]
async fn changed_claim_templates_alone_change_nothing() {
    let fleet =
        Fleet::launch("cloneset-claims", |set| in_place(with_claim(set.replicas(2)), json!({}))).await;
    let (pods, claims) = (fleet.pods().await, fleet.claims().await);
    let mut templates = fleet.set.get().await.1["spec"]["volumeClaimTemplates"].clone();
    templates[0]["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    fleet.change(json!({"volumeClaimTemplates": templates})).await;
    fleet.settled().await;
    assert_eq!(fleet.revisions().await.len(), 1);
    assert_eq!(uids(&fleet.pods().await), uids(&pods));
    fleet.roll(NEW).await;
    fleet.complete().await;
    let after = fleet.pods().await;
    assert_eq!((uids(&after), with_image(&after, NEW)), (uids(&pods), 2), "in place");
    assert!(after.iter().all(|pod| restarts(pod, "main") == 1));
    assert_eq!(uids(&fleet.claims().await), uids(&claims));
}

/// Scenario 27.
#[tokio::test]
async fn progress_says_why_a_rollout_rests() {
    let fleet = Fleet::launch("cloneset-rests", |set| {
        in_place(set.replicas(5).with("/spec/progressDeadlineSeconds", 600), json!({"partition": 2}))
    })
    .await;
    fleet.roll(NEW).await;
    let reasoned = async |reason: &str| {
        fleet.observed(reason, |set| condition(set, "Progressing")["reason"] == reason).await;
    };
    reasoned("ProgressPartitionAvailable").await;
    assert_eq!(with_image(&fleet.pods().await, NEW), 3);
    fleet.change_rolling(json!({"paused": true})).await;
    reasoned("CloneSetPaused").await;
}
