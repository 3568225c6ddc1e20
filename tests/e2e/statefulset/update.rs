//! How Pods come to another revision (docs/behaviour/statefulset.md#update-step).

use kit::builders::Object;
use serde_json::json;

use super::{asked, gated, in_place, launch, named, parallel, rolling, updated};
use crate::chronicle::staying;
use crate::cloneset::gates::cpu;
use crate::support::fleet::{
    Fleet, NEW, OLD, REVISION, image, is_ready, label, name, restarts, uids, with_image,
};

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
