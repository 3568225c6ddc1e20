//! How Pods come to a new revision (docs/behaviour/daemonset.md#update-step).

use kit::builders::Object;
use serde_json::json;

use super::{asked, complete, gated, identities, launch, pod_on, rolling, running};
use crate::cloneset::gates::cpu;
use crate::support::fleet::{IN_PLACE_UPDATE_READY, NEW, OLD, REVISION, condition, label, name};

/// Scenarios 21 and 22.
#[tokio::test]
async fn nothing_is_updated_while_paused_or_on_delete() {
    let fleet =
        launch(asked().await, "daemonset-paused", 2, |set| rolling(set, json!({"paused": true}))).await;
    let before = identities(&fleet.pods().await);
    fleet.roll(NEW).await;
    fleet.status("the new revision to be known", json!({"updatedNumberScheduled": 0})).await;
    assert_eq!(identities(&fleet.pods().await), before);
    let pod = pod_on(&fleet, 0).await;
    fleet.pod(&name(&pod)).delete().await;
    running(&fleet, NEW, &[0]).await;
    fleet.change_rolling(json!({"paused": false})).await;
    complete(&fleet).await;
    fleet.change(json!({"updateStrategy": {"type": "OnDelete"}})).await;
    fleet.roll(OLD).await;
    fleet
        .status("the old revision to be known", json!({"updatedNumberScheduled": 0, "numberAvailable": 2}))
        .await;
    let pod = pod_on(&fleet, 1).await;
    fleet.pod(&name(&pod)).delete().await;
    running(&fleet, OLD, &[1]).await;
}

/// docs/behaviour/in-place-update.md#order-of-containers
#[tokio::test]
async fn all_resources_change_in_one_edit() {
    let in_place = json!({"rollingUpdateType": "InPlaceIfPossible"});
    let sized = |set: Object| rolling(set.having("resources", cpu("200m", "100m")), in_place);
    launch(gated().await, "daemonset-resizes", 2, sized).await.resize_all(complete).await;
}

/// Scenarios 27 (without real containers) and 28.
#[tokio::test]
async fn pods_are_updated_in_place_where_that_is_possible() {
    let in_place = json!({"rollingUpdateType": "InPlaceIfPossible"});
    let fleet = launch(asked().await, "daemonset-inplace", 3, |set| rolling(set, in_place)).await;
    let before = identities(&fleet.pods().await);
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    let status = complete(&fleet).await;
    let pods = fleet.pods().await;
    assert_eq!(identities(&pods), before);
    for pod in &pods {
        assert_eq!(status["updateRevision"], label(pod, REVISION));
        assert_eq!(condition(pod, IN_PLACE_UPDATE_READY)["status"], "True");
        let was_closed = chronicle.moments().await.iter().any(|moment| {
            let then = moment.get(name(pod).as_str());
            then.is_some_and(|then| condition(then, IN_PLACE_UPDATE_READY)["status"] == "False")
        });
        assert!(was_closed, "it left its service meanwhile");
    }
    let message = fleet.event("SuccessfulUpdatePodInPlace").await;
    assert!(message.starts_with("successfully update pod web-") && message.contains("in-place"), "{message}");
    let mut containers = fleet.set.get().await.1["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["env"] = json!([{"name": "LEVEL", "value": "debug"}]);
    fleet.containers(containers).await;
    complete(&fleet).await;
    assert!(identities(&fleet.pods().await).iter().all(|uid| !before.contains(uid)));
}

/// Scenario 38, and the hash of 44.
#[tokio::test]
async fn images_are_pulled_ahead_of_a_rollout_in_several_batches() {
    let fleet =
        launch(gated().await, "daemonset-predownload", 3, |set| rolling(set, json!({"paused": true}))).await;
    fleet.roll(NEW).await;
    let jobs = async || fleet.list("apis/apps.kruise.io/v1beta1", "imagepulljobs").await;
    let job = kit::wait_for("an ImagePullJob", async || {
        let mut jobs = jobs().await;
        if jobs.is_empty() { Err(()) } else { Ok(jobs.remove(0)) }
    })
    .await;
    let hash = fleet.settled().await["updateRevision"].as_str().unwrap().to_owned();
    assert_eq!(name(&job), format!("web-{hash}-main"));
    let spec = &job["spec"];
    assert_eq!((&spec["image"], &spec["parallelism"]), (&json!(NEW), &json!(1)));
    assert_eq!(spec["pullPolicy"]["timeoutSeconds"], 300);
    assert_eq!(spec["completionPolicy"]["ttlSecondsAfterFinished"], 600);
    fleet.change_rolling(json!({"paused": false})).await;
    complete(&fleet).await;
    kit::wait_for("the job to be gone", async || {
        let jobs = jobs().await;
        if jobs.is_empty() { Ok(()) } else { Err(jobs.len()) }
    })
    .await;
    fleet.change_rolling(json!({"maxUnavailable": 3})).await;
    fleet.roll(OLD).await;
    complete(&fleet).await;
    fleet.roll("nginx:1.27").await;
    complete(&fleet).await;
    let newest = fleet.revisions().await.pop().unwrap();
    assert_eq!(label(&newest, "apps.kruise.io/image-predownload-ignored"), "true");
    assert_eq!(jobs().await.len(), 0);
}
