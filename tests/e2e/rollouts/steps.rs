//! The steps of releases without traffic.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::support::fleet::{image, label, name};
use crate::support::message;

const ID: &str = "rollouts.kruise.io/rollout-id";
const BATCH: &str = "rollouts.kruise.io/rollout-batch-id";

fn clone_set(shop: &Shop) -> Object {
    web(shop, "apps.kruise.io/v1alpha1", "CloneSet").replicas(5)
}

fn shares(shares: &[&str]) -> Value {
    let sizes: Vec<Value> = shares.iter().map(|share| json!(share)).collect();
    json!({"canary": {"steps": steps(&sizes)}})
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_1_each_step_of_a_cloneset_follows_an_approval() {
    let release = Release::open("ro-steps", clone_set, shares(&["20%", "60%", "100%"])).await;
    let held = release.roll(NEW).await;
    assert_eq!(held["spec"]["updateStrategy"]["partition"], "100%", "in the same write: {held:#}");
    assert!(held["metadata"]["annotations"][IN_PROGRESSING].as_str().unwrap().contains("web"));
    for (step, new) in [(1, 1), (2, 3)] {
        release.paused(step).await;
        assert_eq!(release.new_pods().await, new, "step {step}");
        // As a manifest that is applied again.
        let applied = release.fleet.set.patch(&json!({"spec": {"updateStrategy": {"partition": 0}}})).await;
        assert_ne!(applied["spec"]["updateStrategy"]["partition"], 0, "step {step}");
        release.approve().await;
    }
    release.over("True").await;
    release.settled(NEW).await;
    let workload = release.workload().await;
    let partition = &workload["spec"]["updateStrategy"]["partition"];
    assert!(partition.is_null() || *partition == 0, "{partition}");
    assert_eq!(workload["metadata"]["uid"], release.fleet.set.object["metadata"]["uid"]);
    assert!(release.event("Progressing").await.contains("canary pods with new versions done"));
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_2_a_step_with_a_duration_passes_when_it_is_over() {
    const PAUSE: i64 = 4;
    let steps = json!([{"replicas": 1, "pause": {"duration": PAUSE}}, {"replicas": 2}]);
    let release = Release::open("ro-pause", clone_set, json!({"canary": {"steps": steps}})).await;
    release.roll(NEW).await;
    let time = |status: &Value| -> Timestamp { status["lastUpdateTime"].as_str().unwrap().parse().unwrap() };
    let ready = time(&release.paused(1).await);
    let begun = release
        .reaches("the second step to begin", |status| status[release.block]["currentStepIndex"] == 2)
        .await;
    let waited = time(&begun["status"][release.block]).duration_since(ready);
    // Times have whole seconds.
    assert!(waited >= SignedDuration::from_secs(PAUSE - 1), "{waited}");
    release.paused(2).await;
    assert_eq!(release.new_pods().await, 2);
    release.approve().await;
    release.over("True").await;
    release.settled(NEW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_3_and_11_somebody_chooses_a_step_and_changes_their_number_in_vain() {
    let release = Release::open("ro-jump", clone_set, shares(&["20%", "40%", "60%", "80%", "100%"])).await;
    release.roll(NEW).await;
    release.paused(1).await;
    release.approve().await;
    release.paused(2).await;
    release.rollout.patch_status(&json!({"canaryStatus": {"nextStepIndex": 4}})).await;
    release.paused(4).await;
    assert_eq!(release.new_pods().await, 4);

    let fewer = release.rollout.try_patch(&json!({"spec": {"strategy": shares(&["20%", "100%"])}})).await;
    assert_eq!(fewer.0, 422, "{:#}", fewer.1);
    assert!(message(&fewer).contains("Amount of Rollout steps are immutable"), "{:#}", fewer.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_13_a_rollout_that_is_deleted_lets_the_workload_go_on() {
    let set = |shop: &Shop| web(shop, "apps.kruise.io/v1beta1", "CloneSet").replicas(5);
    let original = json!({"hosts": ["web"], "http": [{"route": [{"destination": {"host": "web"}}]}]});
    let routing = json!([{"service": "web", "gracePeriodSeconds": 1, "customNetworkRefs": [
        {"apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService", "name": "web"}]}]);
    let strategy = json!({"canary": {"trafficRoutings": routing,
        "steps": [{"replicas": "20%", "traffic": "20%"}, {"replicas": "100%"}]}});
    let release = Release::open("ro-deleted", set, strategy).await;
    let service = release.with(traffic::service()).await;
    let route =
        object("networking.istio.io/v1beta1", "VirtualService", "web").with("/spec", original.clone());
    let route = release.with(route).await;

    release.roll(NEW).await;
    release.paused(1).await;
    assert_eq!(release.new_pods().await, 1);
    let routed = route.get().await.1;
    assert_eq!(traffic::weights(&routed["spec"]["http"][0]["route"], "/destination/host"), traffic::twenty());
    release.rollout.deleted().await;
    release.rollout.gone().await;
    release.left().await;
    release.settled(NEW).await;
    assert_eq!(route.get().await.1["spec"], original);
    assert_eq!(service.get().await.1["spec"]["selector"], json!({"app": "web"}));
    release.object("v1", "Service", "web-canary").gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_14_an_identity_as_label_or_annotation_begins_a_release_and_reaches_pods_and_history() {
    let steps = json!([{"replicas": 1, "pause": {"duration": 0}}, {"replicas": 3}]);
    let set = |shop: &Shop| web(shop, "apps.kruise.io/v1alpha1", "CloneSet").replicas(3);
    let release = Release::open("ro-identity", set, json!({"canary": {"steps": steps}})).await;
    for (place, other, id, image) in
        [("labels", "annotations", "spring", NEW), ("annotations", "labels", "summer", NEWER)]
    {
        release.roll_with(image, json!({place: {ID: id}, other: {ID: null}})).await;
        release
            .reaches("the release to begin", |status| status[release.block]["observedRolloutID"] == id)
            .await;
        release.over("True").await;
        release.settled(image).await;
        let pods = release.fleet.pods().await;
        assert!(pods.iter().all(|pod| label(pod, ID) == id), "{place}: {pods:#?}");
        let mut batches: Vec<&str> = pods.iter().map(|pod| label(pod, BATCH)).collect();
        batches.sort_unstable();
        assert_eq!(batches, ["1", "2", "2"], "{place}");
        let of_step = |step: &str| {
            let mut names: Vec<String> =
                pods.iter().filter(|pod| label(pod, BATCH) == step).map(name).collect();
            names.sort_unstable();
            names
        };
        let recorded = recorded(&release, id).await;
        assert_eq!(recorded, [(json!(1), of_step("1")), (json!(2), of_step("2"))], "{place}");
    }
}

/// The Pods of each step in the history of a release, once it is over.
async fn recorded(release: &Release, id: &str) -> Vec<(Value, Vec<String>)> {
    let history = wait_for("the history of the release", async || {
        let all = release.fleet.list("apis/rollouts.kruise.io/v1alpha1", "rollouthistories").await;
        let of_release = all.iter().find(|history| history["spec"]["rollout"]["rolloutID"] == id).cloned();
        of_release.filter(|history| history["status"]["phase"] == "completed").ok_or(all)
    })
    .await;
    let steps = history["status"]["canarySteps"].as_array().unwrap().iter().map(|step| {
        let pods = step["pods"].as_array().unwrap().iter();
        let mut names: Vec<String> = pods.map(|pod| pod["name"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        (step["canaryStepIndex"].clone(), names)
    });
    steps.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_17_a_rollout_that_comes_with_a_template_holds_all_but_its_first_step() {
    let together = async |prefix: &str, api_version: &str, kind: &str| {
        let set = |shop: &Shop| web(shop, api_version, kind).replicas(3);
        let fleet = complete_fleet(&site().await.server, prefix, set).await;
        let chronicle = fleet.chronicle().await;
        let release = Release::begin(fleet, json!({"canary": {"steps": steps(&[json!(1), json!(3)])}})).await;
        release.roll(NEW).await;
        release.paused(1).await;
        let new = |pods: &[&Value]| pods.iter().filter(|pod| image(pod) == NEW).count();
        assert_eq!(chronicle.range(new).await, (0, 1), "{kind}");
    };
    futures::join!(
        together("ro-together", "apps.kruise.io/v1alpha1", "CloneSet"),
        together("ro-together", "apps/v1", "Deployment"),
    );
}
