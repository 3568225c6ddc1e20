//! How Pods come to a new revision (docs/behaviour/daemonset.md#update-step).

use kit::builders::Object;
use kit::fake_nodes;
use serde_json::{Value, json};

use super::{asked, complete, gated, identities, launch, node, pod_on, rolling, running, stored_node, taint};
use crate::cloneset::gates::cpu;
use crate::support::fleet::{IN_PLACE_UPDATE_READY, NEW, OLD, REVISION, condition, is_ready, label, name};

/// Scenario 14.
#[tokio::test]
async fn no_more_nodes_are_down_than_may_be() {
    let fleet =
        launch(asked().await, "daemonset-roll", 5, |set| rolling(set, json!({"maxUnavailable": 2}))).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    complete(&fleet).await;
    for moment in chronicle.moments().await {
        let is_up = |pod: &&Value| is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null();
        let up = moment.values().map(|pod| &**pod).filter(is_up).count();
        assert!(up >= 3, "{up} Nodes have a Pod that is ready");
    }
    let status = fleet.settled().await;
    assert!(fleet.pods().await.iter().all(|pod| status["updateRevision"] == label(pod, REVISION)));
}

/// Scenario 15.
#[tokio::test]
async fn pods_that_serve_nobody_are_replaced_at_once() {
    let fleet = launch(asked().await, "daemonset-broken", 3, |set| set).await;
    for pod in fleet.pods().await {
        fleet.annotate(&name(&pod), fake_nodes::READY_AFTER, "never").await;
        fleet.annotate(&name(&pod), fake_nodes::TERMINATE_AFTER, "never").await;
    }
    fleet.observed("no Pod to be ready", |set| set["status"]["numberReady"] == 0).await;
    fleet.roll(NEW).await;
    fleet.wait_pods("all to be deleted", <[Value]>::is_empty).await;
}

/// Scenarios 16 and 18.
#[tokio::test]
async fn a_partition_keeps_the_first_nodes() {
    let fleet =
        launch(asked().await, "daemonset-partition", 4, |set| rolling(set, json!({"partition": 10}))).await;
    fleet.roll(NEW).await;
    fleet.status("nothing to be updated", json!({"updatedNumberScheduled": 0, "numberAvailable": 4})).await;
    fleet.change_rolling(json!({"partition": 3})).await;
    running(&fleet, NEW, &[3]).await;
    fleet.change_rolling(json!({"partition": "50%"})).await;
    running(&fleet, NEW, &[2, 3]).await;
    fleet.change_rolling(json!({"partition": 0})).await;
    complete(&fleet).await;
}

/// Scenarios 19 and 20.
#[tokio::test]
async fn a_selector_takes_the_nodes_that_it_matches() {
    let canary = json!({"selector": {"matchLabels": {"example.com/canary": "yes"}}});
    let fleet = launch(asked().await, "daemonset-selector", 4, |set| rolling(set, canary)).await;
    stored_node(&fleet, 1).label("example.com/canary", "yes").await;
    fleet.roll(NEW).await;
    running(&fleet, NEW, &[1]).await;
    stored_node(&fleet, 1).patch(&json!({"metadata": {"labels": {"example.com/canary": null}}})).await;
    // The highest first: it is its turn however many of them the controller knows with the new selector.
    for index in [3, 2, 0] {
        stored_node(&fleet, index).label("example.com/second", "yes").await;
    }
    let second = json!({"selector": {"matchLabels": {"example.com/canary": null, "example.com/second": "yes"}}, "partition": 2});
    fleet.change_rolling(second).await;
    running(&fleet, NEW, &[1, 3]).await;
}

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
async fn all_images_change_in_one_edit() {
    let in_place = json!({"rollingUpdateType": "InPlaceIfPossible"});
    let fleet = launch(asked().await, "daemonset-order", 2, |set| rolling(set, in_place)).await;
    fleet.roll_all(complete).await;
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

/// Scenario 29.
#[tokio::test]
async fn pods_without_the_gate_are_recreated_once() {
    let fleet = launch(asked().await, "daemonset-gate", 2, |set| set).await;
    let before = identities(&fleet.pods().await);
    fleet.change_rolling(json!({"rollingUpdateType": "InPlaceIfPossible"})).await;
    fleet.settled().await;
    assert_eq!(identities(&fleet.pods().await), before);
    fleet.roll(NEW).await;
    complete(&fleet).await;
    for pod in fleet.pods().await {
        let gates = pod["spec"]["readinessGates"].as_array().unwrap();
        assert!(gates.iter().any(|gate| gate["conditionType"] == IN_PLACE_UPDATE_READY), "{}", node(&pod));
    }
}

/// Scenario 43, and 39 with a taint.
#[tokio::test]
async fn nodes_that_are_excluded_hold_up_nobody_with_the_gate() {
    let fleet = launch(gated().await, "daemonset-prune", 4, |set| set).await;
    let pod = pod_on(&fleet, 0).await;
    fleet.annotate(&name(&pod), fake_nodes::TERMINATE_AFTER, "never").await;
    fleet.annotate(&name(&pod), fake_nodes::READY_AFTER, "never").await;
    taint(&fleet, 0, json!([{"key": "broken", "effect": "NoExecute"}])).await;
    fleet.observed("the Node to be excluded", |set| set["status"]["desiredNumberScheduled"] == 3).await;
    fleet.roll(NEW).await;
    running(&fleet, NEW, &[1, 2, 3]).await;
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
