//! How far and how fast a rollout goes.

use kit::fake_nodes;
use serde_json::{Value, json};

use super::{
    Fleet, INSTANCE_ID, NEW, OLD, SPECIFIED_DELETE, asked, clone_set, condition, image, in_place,
    is_available, label, name, restarts, rolling, uids, with_claim, with_image,
};

fn available(pods: &[&Value]) -> usize {
    pods.iter().filter(|pod| is_available(pod)).count()
}

fn count(pods: &[&Value]) -> usize {
    pods.len()
}

/// Scenarios 6 and 8, without gate.
#[tokio::test]
async fn the_partition_stays_behind() {
    let fleet =
        Fleet::launch("cloneset-partition", |set| in_place(set.replicas(5), json!({"partition": 3}))).await;
    let before = fleet.pods().await;
    let old = fleet.complete().await["currentRevision"].clone();
    fleet.roll(NEW).await;
    let wanted = json!({"updatedReplicas": 2, "expectedUpdatedReplicas": 2, "updatedAvailableReplicas": 2, "availableReplicas": 5});
    let status = fleet.status("two Pods to be updated", wanted.clone()).await;
    assert_eq!(status["currentRevision"], old);
    assert_ne!(status["updateRevision"], old);
    let after = fleet.pods().await;
    assert_eq!((uids(&after), with_image(&after, NEW)), (uids(&before), 2));

    fleet.change_rolling(json!({"partition": 5})).await;
    fleet.status("nothing to go back", json!({"updatedReplicas": 2, "availableReplicas": 5})).await;
    assert_eq!(with_image(&fleet.pods().await, NEW), 2);
}

/// Scenario 7.
#[tokio::test]
async fn a_partition_in_percent_keeps_all_only_at_one_hundred() {
    let fleet =
        Fleet::launch("cloneset-percent", |set| in_place(set.replicas(5), json!({"partition": "100%"})))
            .await;
    fleet.roll(NEW).await;
    fleet.settled().await;
    assert_eq!(with_image(&fleet.pods().await, NEW), 0);
    fleet.change_rolling(json!({"partition": "99%"})).await;
    fleet
        .status(
            "one to be updated",
            json!({"updatedReplicas": 1, "expectedUpdatedReplicas": 1, "availableReplicas": 5}),
        )
        .await;
    assert_eq!(with_image(&fleet.pods().await, NEW), 1);

    let single =
        Fleet::launch("cloneset-percent", |set| in_place(set.replicas(1), json!({"partition": "99%"}))).await;
    single.roll(NEW).await;
    single.settled().await;
    assert_eq!(with_image(&single.pods().await, NEW), 0);
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

fn old(pods: &[&Value]) -> usize {
    pods.iter().filter(|pod| image(pod) == OLD).count()
}

/// A blue-green release lets new Pods come beside the old ones by a surge, and sees to it that they are not available.
#[tokio::test]
async fn serving_pods_stay_beside_new_ones_that_are_not_available_until_the_settings_are_put_back() {
    for (surge, pods) in [("50%", 8), ("100%", 10)] {
        let fleet = Fleet::launch("cloneset-blue-green", |set| {
            rolling(set.replicas(5), "ReCreate", json!({"maxUnavailable": 0, "maxSurge": surge}))
        })
        .await;
        let chronicle = fleet.chronicle().await;
        fleet.change(json!({"minReadySeconds": i32::MAX - 1})).await;
        fleet.change_rolling(json!({"partition": null})).await;
        fleet.roll(NEW).await;
        let wanted = json!({"replicas": pods, "readyReplicas": pods, "updatedReplicas": pods - 5, "availableReplicas": 0});
        fleet.status("the new Pods to be ready", wanted.clone()).await;
        fleet.change(json!({"revisionHistoryLimit": 9})).await;
        fleet.status("another look", wanted).await;
        assert_eq!(
            (chronicle.range(count).await, chronicle.range(old).await),
            ((5, pods), (5, 5)),
            "{surge}"
        );
        fleet.change(json!({"minReadySeconds": 0})).await;
        fleet.complete().await;
        assert_eq!(with_image(&fleet.pods().await, NEW), 5);
    }
}

/// Scenario 10.
#[tokio::test]
async fn the_budget_is_rounded_up_without_surge_and_down_with_it() {
    let fleet = Fleet::launch("cloneset-budget", |set| {
        let set = set.replicas(10).template_annotation(fake_nodes::READY_AFTER, "100");
        in_place(set, json!({"maxUnavailable": "25%"}))
    })
    .await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    fleet.complete().await;
    assert_eq!(chronicle.range(available).await.0, 7, "at most 3 and at times 3 are away");
    assert_eq!(chronicle.range(count).await, (10, 10));
    drop(chronicle);

    fleet.change_rolling(json!({"maxSurge": 1})).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll("nginx:1.27").await;
    fleet.complete().await;
    assert!(chronicle.range(available).await.0 >= 8, "{:?}", chronicle.range(available).await);
    assert_eq!(chronicle.range(count).await, (10, 11));
}

/// Scenario 13.
#[tokio::test]
async fn a_pause_stops_updates_and_nothing_else() {
    let fleet =
        Fleet::launch("cloneset-paused", |set| in_place(set.replicas(3), json!({"paused": true}))).await;
    let before = fleet.pods().await;
    fleet.roll(NEW).await;
    fleet.settled().await;
    fleet.scale(4).await;
    fleet
        .status("the fourth Pod", json!({"replicas": 4, "availableReplicas": 4, "updatedReplicas": 1}))
        .await;
    for pod in &before {
        assert_eq!(image(&fleet.pod(&name(pod)).get().await.1), OLD);
    }
    fleet.change_rolling(json!({"paused": false})).await;
    fleet.complete().await;
    let after = fleet.pods().await;
    assert_eq!(with_image(&after, NEW), 4);
    assert!(uids(&before).iter().all(|uid| uids(&after).contains(uid)));
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

/// Scenario 8 of docs/behaviour/in-place-update.md.
#[tokio::test]
async fn another_order_of_containers_needs_new_pods() {
    let fleet = Fleet::launch("cloneset-swapped", |set| in_place(set.replicas(1), json!({}))).await;
    let before = fleet.pods().await;
    let mut containers = fleet.set.object["spec"]["template"]["spec"]["containers"].clone();
    containers.as_array_mut().unwrap().reverse();
    fleet.containers(containers).await;
    fleet.complete().await;
    assert_ne!(uids(&fleet.pods().await), uids(&before));
}

/// The policy by default.
#[tokio::test]
async fn pods_are_recreated_by_default() {
    let fleet = Fleet::launch("cloneset-default", |set| set.replicas(1)).await;
    let before = fleet.pods().await;
    fleet.roll(NEW).await;
    fleet.complete().await;
    assert_ne!(uids(&fleet.pods().await), uids(&before));
}
