//! How Pods come to another revision (docs/behaviour/statefulset.md#update-step).

use kit::builders::Object;
use kit::fake_nodes;
use serde_json::json;

use super::{asked, gated, in_place, launch, make_ready, named, parallel, rolling, updated};
use crate::chronicle::staying;
use crate::cloneset::gates::cpu;
use crate::support::fleet::{
    Fleet, NEW, OLD, REVISION, SPECIFIED_DELETE, image, is_ready, label, name, restarts, uids, with_image,
};

/// Scenarios 9 and 11.
#[tokio::test]
async fn partition_keeps_pods_at_the_current_revision() {
    let fleet = launch(asked().await, "statefulset-partition", |set| {
        rolling(parallel(set.replicas(4)), json!({"partition": 2, "maxUnavailable": 2}))
    })
    .await;
    let before = fleet.complete().await;
    fleet.roll(NEW).await;
    updated(&fleet, &["web-2", "web-3"]).await;
    let status = fleet.status("two to be updated", json!({"updatedReplicas": 2, "readyReplicas": 4})).await;
    assert_eq!(
        (&status["currentRevision"], &status["currentReplicas"]),
        (&before["currentRevision"], &json!(2))
    );
    let old = uids(&fleet.pods().await);
    for pod in ["web-0", "web-3"] {
        fleet.pod(pod).deleted().await;
    }
    fleet
        .wait_pods("both to be replaced", |pods| {
            let is_new = |at: usize| uids(pods)[at] != old[at];
            pods.len() == 4 && [0, 3].map(is_new) == [true; 2]
        })
        .await;
    let pods = updated(&fleet, &["web-2", "web-3"]).await;
    assert_eq!(pods.len(), 4);
    fleet.change_rolling(json!({"partition": 0})).await;
    let status = fleet.complete().await;
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(with_image(&fleet.pods().await, NEW), 4);
}

/// Scenarios 12 and 13.
#[tokio::test]
async fn no_more_pods_are_unavailable_than_the_budget_says() {
    let fleet = launch(asked().await, "statefulset-unavailable", |set| {
        rolling(parallel(set.replicas(5)), json!({"maxUnavailable": "50%"}))
    })
    .await;
    fleet.annotate("web-0", fake_nodes::READY_AFTER, "never").await;
    fleet.status("one to be unavailable", json!({"availableReplicas": 4})).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    updated(&fleet, &["web-0", "web-1", "web-2", "web-3", "web-4"]).await;
    let (least, _) = chronicle.range(|pods| pods.iter().filter(|pod| is_ready(pod)).count()).await;
    assert!(least >= 3, "{least} were ready");
}

/// docs/behaviour/in-place-update.md#order-of-containers
#[tokio::test]
async fn all_images_change_in_one_edit() {
    let fleet = launch(asked().await, "statefulset-order", |set| in_place(set.replicas(2))).await;
    fleet.roll_all(Fleet::complete).await;
}

/// docs/behaviour/in-place-update.md#order-of-containers
#[tokio::test]
async fn all_resources_change_in_one_edit() {
    let sized = |set: Object| in_place(set.having("resources", cpu("200m", "100m")).replicas(2));
    launch(gated().await, "statefulset-resizes", sized).await.resize_all(Fleet::complete).await;
}

/// Scenario 16.
#[tokio::test]
async fn images_are_updated_in_place_from_the_highest_ordinal_down() {
    let fleet = launch(asked().await, "statefulset-in-place", |set| in_place(set.replicas(3))).await;
    let before = fleet.pods().await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    let status = fleet.complete().await;
    let after = fleet.pods().await;
    assert_eq!(uids(&after), uids(&before));
    for pod in &after {
        assert_eq!((image(pod), restarts(pod, "main")), (NEW, 1), "{}", name(pod));
        assert_eq!(label(pod, REVISION), status["updateRevision"]);
    }
    assert_eq!(chronicle.order(|pod| image(pod) == NEW).await, ["web-2", "web-1", "web-0"]);
    let (least, _) = chronicle.range(|pods| pods.iter().filter(|pod| is_ready(pod)).count()).await;
    assert_eq!(least, 2);
    let event = fleet.event("SuccessfulUpdatePodInPlace").await;
    assert!(event.starts_with("successfully update pod web-"), "{event}");
}

/// Scenario 18.
#[tokio::test]
async fn a_paused_set_scales_only() {
    let fleet =
        launch(asked().await, "statefulset-paused", |set| rolling(set.replicas(2), json!({"paused": true})))
            .await;
    let before = fleet.pods().await;
    fleet.roll_and(NEW, json!({"replicas": 3})).await;
    let after = updated(&fleet, &["web-2"]).await;
    assert_eq!(uids(&after)[..2], uids(&before));
}

/// Scenario 19, by `orderPriority`.
#[tokio::test]
async fn pods_go_in_the_order_of_their_priority() {
    let priority = json!({"orderPriority": [{"orderedKey": "turn"}]});
    let fleet = launch(asked().await, "statefulset-priority", |set| {
        let settings = json!({"maxUnavailable": 1, "unorderedUpdate": {"priorityStrategy": priority}});
        rolling(parallel(set.replicas(3)), settings)
    })
    .await;
    for (pod, turn) in [("web-0", "x-2"), ("web-1", "x-10"), ("web-2", "x-7")] {
        fleet.pod(pod).label("turn", turn).await;
    }
    fleet.pods_seen().await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    fleet.complete().await;
    assert_eq!(chronicle.order(|pod| image(pod) == NEW).await, ["web-1", "web-2", "web-0"]);
}

/// Scenario 21.
#[tokio::test]
async fn a_labelled_pod_is_replaced_when_the_budget_bears_it() {
    let fleet = launch(asked().await, "statefulset-specified", |set| parallel(set.replicas(3))).await;
    let before = fleet.pods().await;
    fleet.annotate("web-0", fake_nodes::READY_AFTER, "never").await;
    fleet.status("one to be unavailable", json!({"availableReplicas": 2})).await;
    fleet.pod("web-1").label(SPECIFIED_DELETE, "true").await;
    fleet.change(json!({"revisionHistoryLimit": 3})).await;
    fleet.settled().await;
    assert_eq!(uids(&fleet.pods().await), uids(&before), "another Pod is unavailable");
    make_ready(&fleet, "web-0").await;
    let after = fleet
        .wait_pods("web-1 to be replaced", |pods| {
            pods.len() == 3 && label(&pods[1], SPECIFIED_DELETE).is_empty() && pods.iter().all(is_ready)
        })
        .await;
    assert_ne!(uids(&after)[1], uids(&before)[1]);
}

/// Scenarios 31 and 32.
#[tokio::test]
async fn revisions_are_used_again_and_old_ones_go() {
    let fleet = launch(asked().await, "statefulset-revisions", |set| {
        in_place(parallel(set.replicas(1))).with("/spec/revisionHistoryLimit", 1)
    })
    .await;
    let first = fleet.complete().await;
    fleet.roll(NEW).await;
    let second = fleet.complete().await;
    assert_ne!(first["updateRevision"], second["updateRevision"]);
    fleet.roll(OLD).await;
    assert_eq!(fleet.complete().await["updateRevision"], first["updateRevision"]);
    let numbers: Vec<i64> =
        fleet.revisions().await.iter().map(|revision| revision["revision"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [2, 3]);
    fleet.roll("nginx:1.27").await;
    let last = fleet.complete().await;
    kit::wait_for("old revisions to go", async || {
        let left = fleet.revisions().await;
        if left.len() == 2 && name(&left[1]) == last["updateRevision"] { Ok(()) } else { Err(left) }
    })
    .await;
}

/// Scenario 34.
#[tokio::test]
async fn with_on_delete_pods_are_updated_by_who_deletes_them() {
    let fleet = launch(asked().await, "statefulset-on-delete", |set| {
        set.replicas(2).with("/spec/updateStrategy", json!({"type": "OnDelete"}))
    })
    .await;
    let before = fleet.complete().await;
    fleet.roll(NEW).await;
    fleet.settled().await;
    assert_eq!(with_image(&fleet.pods().await, NEW), 0);
    fleet.pod("web-1").deleted().await;
    updated(&fleet, &["web-1"]).await;
    let status = fleet.status("one to be updated", json!({"updatedReplicas": 1})).await;
    assert_eq!(status["currentRevision"], before["currentRevision"]);
}

/// Scenario 45.
#[tokio::test]
async fn a_corrected_template_heals_what_a_broken_one_left() {
    let fleet = launch(asked().await, "statefulset-broken", |set| {
        rolling(parallel(set.replicas(4)), json!({"maxUnavailable": 2}))
            .with("/spec/scaleStrategy", json!({"maxUnavailable": 2}))
    })
    .await;
    fleet.roll("nginx:missing").await;
    fleet
        .wait_pods("the rollout to be stuck", |pods| {
            with_image(pods, "nginx:missing") == 2
                && pods.len() == 4
                && !is_ready(&pods[3])
                && !is_ready(&pods[2])
        })
        .await;
    fleet.roll(NEW).await;
    fleet.complete().await;
    updated(&fleet, &["web-0", "web-1", "web-2", "web-3"]).await;
}

/// The order of updates is kept while Pods are recreated one by one.
#[tokio::test]
async fn ordered_pods_are_recreated_one_by_one() {
    let fleet = launch(asked().await, "statefulset-recreate", |set| set.replicas(3)).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    fleet.complete().await;
    named(&fleet, &["web-0", "web-1", "web-2"]).await;
    assert_eq!(chronicle.order(|pod| image(pod) == NEW).await, ["web-2", "web-1", "web-0"]);
    for moment in chronicle.moments().await {
        assert!(staying(&moment).len() >= 2, "one at a time");
    }
}

/// Scenario 38.
#[tokio::test]
async fn images_are_pulled_ahead_of_an_update() {
    let fleet = launch(gated().await, "statefulset-pull", |set| {
        let set = in_place(parallel(set.replicas(4)));
        set.with("/spec/updateStrategy/rollingUpdate/partition", 3)
            .annotation("apps.kruise.io/image-predownload-parallelism", "2")
    })
    .await;
    fleet.roll(NEW).await;
    let jobs = async || fleet.list("apis/apps.kruise.io/v1beta1", "imagepulljobs").await;
    let job = kit::wait_for("the job", async || jobs().await.pop().ok_or("none yet")).await;
    let status = fleet.settled().await;
    assert_eq!(name(&job), format!("{}-main", status["updateRevision"].as_str().unwrap()));
    assert_eq!((&job["spec"]["image"], &job["spec"]["parallelism"]), (&json!(NEW), &json!(2)));
    fleet.change_rolling(json!({"partition": 0})).await;
    fleet.complete().await;
    kit::wait_for("the job to go", async || {
        let left = jobs().await;
        if left.is_empty() { Ok(()) } else { Err(left.len()) }
    })
    .await;
    small_sets_need_none(&fleet).await;
}

async fn small_sets_need_none(fleet: &Fleet) {
    fleet.scale(3).await;
    fleet.complete().await;
    // While a rollout is under way its jobs stay.
    fleet.change_rolling(json!({"partition": 3})).await;
    fleet.roll(OLD).await;
    let ignored = "apps.kruise.io/image-predownload-ignored";
    kit::wait_for("the revision to be marked", async || {
        let marked = fleet.revisions().await.iter().any(|revision| label(revision, ignored) == "true");
        if marked { Ok(()) } else { Err(fleet.revisions().await) }
    })
    .await;
    let jobs = fleet.list("apis/apps.kruise.io/v1beta1", "imagepulljobs").await;
    assert!(jobs.is_empty(), "{jobs:#?}");
}
