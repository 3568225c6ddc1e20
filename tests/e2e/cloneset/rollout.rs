//! How far and how fast a rollout goes.

use kit::fake_nodes;
use serde_json::{Value, json};

use super::{
    Fleet, INSTANCE_ID, NEW, SPECIFIED_DELETE, asked, clone_set, condition, in_place, is_available, label,
    name, restarts, uids, with_claim, with_image,
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

/// Scenario 18 and scenario 7 of docs/behaviour/lifecycle.md: what cannot be changed in place is recreated,
/// with its claims.
#[tokio::test]
async fn recreated_pods_get_new_claims() {
    let fleet = Fleet::launch("cloneset-recreate", |set| {
        in_place(with_claim(set.replicas(2)), json!({"maxUnavailable": 1}))
    })
    .await;
    let (pods, claims) = (fleet.pods().await, fleet.claims().await);
    let chronicle = fleet.chronicle().await;
    let mut containers = fleet.set.object["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["env"] = json!([{"name": "MODE", "value": "b"}]);
    fleet.containers(containers).await;
    fleet.complete().await;
    let (new_pods, new_claims) = (fleet.pods().await, fleet.claims().await);
    assert_eq!((new_pods.len(), new_claims.len()), (2, 2));
    assert!(!uids(&pods).iter().any(|uid| uids(&new_pods).contains(uid)));
    assert!(!uids(&claims).iter().any(|uid| uids(&new_claims).contains(uid)));
    for (pod, claim) in new_pods.iter().zip(&new_claims) {
        assert_eq!(label(pod, INSTANCE_ID), label(claim, INSTANCE_ID));
    }
    for pod in &pods {
        let marks = chronicle.course(&name(pod), |pod| label(pod, SPECIFIED_DELETE).to_owned()).await;
        assert_eq!(marks, ["", "true"], "labelled before it is deleted");
    }
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

/// Scenario 26, with a shorter time.
#[tokio::test]
async fn a_rollout_without_progress_is_reported() {
    const DEADLINE: i64 = 20;
    let fleet =
        Fleet::launch("cloneset-deadline", |set| in_place(set.replicas(2), json!({"maxUnavailable": 1})))
            .await;
    assert!(condition(&fleet.set.get().await.1, "Progressing").is_null());
    fleet.change(json!({"progressDeadlineSeconds": DEADLINE})).await;
    let reasoned = async |reason: &str, status: &str| {
        fleet
            .observed(reason, |set| {
                let progress = condition(set, "Progressing");
                progress["reason"] == reason && progress["status"] == status
            })
            .await
    };
    reasoned("CloneSetAvailable", "True").await;
    fleet.roll("nginx:missing").await;
    let begun = reasoned("CloneSetUpdated", "True").await;
    let set = reasoned("ProgressDeadlineExceeded", "False").await;
    // Times are kept in whole seconds, and the last progress may be seen later than `begun`.
    let time = |set: &Value| -> jiff::Timestamp {
        condition(set, "Progressing")["lastUpdateTime"].as_str().unwrap().parse().unwrap()
    };
    let waited = time(&set).duration_since(time(&begun)).as_secs();
    assert!((DEADLINE..DEADLINE + 30).contains(&waited), "{waited} s");
    let revision = set["status"]["updateRevision"].as_str().unwrap();
    assert_eq!(
        condition(&set, "Progressing")["message"],
        format!("CloneSet revision {revision} has timed out progressing")
    );
    fleet.roll(NEW).await;
    reasoned("CloneSetAvailable", "True").await;
    fleet.complete().await;
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
