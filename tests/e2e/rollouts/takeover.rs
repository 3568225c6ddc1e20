//! A release that OpenKruise Rollouts has begun goes on here (docs/installation.md#rollouts).

use super::*;
use crate::support::fleet::{image, name, uid, uids};

/// When OpenKruise's controllers wrote what they left.
const THEN: &str = "2026-01-02T03:04:05Z";
/// The SHA-256 of the batches.
const BATCHES_HASH: &str = "ad9606c4849615be2f3bdd6022b88acf6d477e5f29297cff10d404915b2c50ec";

/// What comes after the last `-` of a revision.
fn short(revision: &Value) -> String {
    revision.as_str().unwrap().rsplit('-').next().unwrap().to_owned()
}

/// The reference of what was made for an object.
fn owned_by(owner: &Stored) -> Value {
    json!({"apiVersion": API_VERSION, "kind": owner.object["kind"], "name": "web", "uid": uid(&owner.object),
        "controller": true, "blockOwnerDeletion": true})
}

/// The fleet in the midst of its first step, as OpenKruise leaves the objects.
async fn left_at_the_first_step(fleet: Fleet) -> Release {
    fleet.roll_and(NEW, json!({"updateStrategy": {"partition": "80%"}})).await;
    let status =
        fleet.status("the first batch", json!({"updatedReadyReplicas": 1, "readyReplicas": 5})).await;
    let [old, new] = ["currentRevision", "updateRevision"].map(|revision| short(&status[revision]));
    let manifest = rollout(&fleet.shop, ("apps.kruise.io/v1alpha1", "CloneSet"), &traffic::a_fifth_first(1))
        .annotation("rollouts.kruise.io/hash", "of-openkruise")
        .with("/metadata/finalizers", json!(["rollouts.kruise.io/rollout"]));
    let rollout = Stored::create(&fleet.shop.client, manifest).await;
    let message = "Rollout is in step(1/3), and you need manually confirm to enter the next step";
    rollout
        .patch_status(&json!({
            "observedGeneration": 1, "phase": "Progressing", "message": message,
            "currentStepIndex": 1, "currentStepState": "StepPaused",
            "conditions": [{"type": "Progressing", "status": "True", "reason": "InRolling",
                "message": "Rollout is in Progressing", "lastUpdateTime": THEN, "lastTransitionTime": THEN}],
            "canaryStatus": {
                "observedWorkloadGeneration": 2, "observedRolloutID": new, "rolloutHash": "of-openkruise",
                "stableRevision": old, "podTemplateHash": new, "canaryRevision": new,
                "canaryReplicas": 1, "canaryReadyReplicas": 1, "currentStepIndex": 1, "nextStepIndex": 2,
                "currentStepState": "StepPaused", "finalisingStep": "", "message": message, "lastUpdateTime": THEN,
            },
        }))
        .await;
    let release = Release { fleet, rollout, block: "canaryStatus" };
    batches(&release, &old, &new).await;
    network(&release, &old, &new).await;
    release
}

/// The BatchRelease, what it holds, and the Pod of its batch.
async fn batches(release: &Release, old: &str, new: &str) {
    let batches = object(API_VERSION, "BatchRelease", "web")
        .with("/metadata/finalizers", json!(["rollouts.kruise.io/batch-release-finalizer"]))
        .with("/metadata/ownerReferences", json!([owned_by(&release.rollout)]))
        .with(
            "/spec",
            json!({
                "workloadRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"},
                "releasePlan": {
                    "batches": [{"canaryReplicas": "20%"}, {"canaryReplicas": "60%"}, {"canaryReplicas": "100%"}],
                    "batchPartition": 0, "rolloutID": new, "rollingStyle": "Partition",
                    "enableExtraWorkloadForCanary": false,
                },
            }),
        );
    let batches = release.with(batches).await;
    batches
        .patch_status(&json!({
            "phase": "Progressing", "stableRevision": old, "updateRevision": new, "observedGeneration": 1,
            "observedRolloutID": new, "observedWorkloadReplicas": 5, "observedReleasePlanHash": BATCHES_HASH,
            "canaryStatus": {"batchState": "Ready", "currentBatch": 0, "batchReadyTime": THEN,
                "updatedReplicas": 1, "updatedReadyReplicas": 1},
        }))
        .await;
    let held = json!({
        "labels": {"rollouts.kruise.io/workload-type": "cloneset"},
        "annotations": {
            IN_PROGRESSING: r#"{"rolloutName":"web"}"#,
            "batchrelease.rollouts.kruise.io/control-info": owned_by(&batches).to_string(),
        },
    });
    release.fleet.set.patch(&json!({"metadata": held})).await;
    let pods = release.fleet.pods().await;
    let labels = json!({"rollouts.kruise.io/rollout-id": new, "rollouts.kruise.io/rollout-batch-id": "1"});
    for pod in pods.iter().filter(|pod| image(pod) == NEW) {
        release.fleet.pod(&name(pod)).patch(&json!({"metadata": {"labels": labels}})).await;
    }
}

/// Both Services, and both Ingresses.
async fn network(release: &Release, old: &str, new: &str) {
    let selecting = |hash: &str| json!({"app": "web", "pod-template-hash": hash});
    let owners = json!([owned_by(&release.rollout)]);
    release.with(traffic::service().with("/spec/selector", selecting(old))).await;
    let mut canary = traffic::service().with("/spec/selector", selecting(new));
    canary = canary.with("/metadata/name", "web-canary").with("/metadata/ownerReferences", owners.clone());
    release.with(canary).await;
    release.with(traffic::ingress()).await;
    let canary = traffic::ingress()
        .with("/metadata/name", "web-canary")
        .with("/metadata/ownerReferences", owners)
        .annotation("nginx.ingress.kubernetes.io/canary", "true")
        .annotation(traffic::WEIGHT, "20")
        .with("/spec/rules/0/http/paths/0/backend/service/name", "web-canary");
    release.with(canary).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_16_a_release_that_openkruise_has_begun_goes_on_and_keeps_its_pods() {
    let server = product::server(kit::Options::default()).await;
    define(&server).await;
    // Its Rollouts are off: it makes Pods, as OpenKruise would.
    let product = Product::serve(&server, product::Options::default()).await;
    in_use(&server).await;
    let fleet = complete_fleet(&server, "ro-takeover", traffic::clone_set).await;
    let release = left_at_the_first_step(fleet).await;
    let pods = uids(&release.fleet.pods().await);
    let made = [
        release.object(API_VERSION, "BatchRelease", "web"),
        release.object("v1", "Service", "web-canary"),
        release.object("networking.k8s.io/v1", "Ingress", "web-canary"),
    ];
    let identities = async || {
        let mut uids = Vec::new();
        for object in &made {
            uids.push(object.get().await.1["metadata"]["uid"].clone());
        }
        uids
    };
    let before = identities().await;

    let product = restart::restarted(&server, product).await;
    wait_for("the Rollout to be taken over", async || {
        let rollout = release.rollout.get().await.1;
        let own = rollout["metadata"]["annotations"]["rollouts.kruise.io/hash"].clone();
        let is_ours = own != "of-openkruise" && rollout["status"][release.block]["rolloutHash"] == own;
        if is_ours { Ok(()) } else { Err(rollout) }
    })
    .await;
    let service = release.object("v1", "Service", "web");
    traffic::has_a_fifth(&release, &service, NEW).await;
    assert_eq!(uids(&release.fleet.pods().await), pods);
    assert_eq!(identities().await, before);

    let first = release.fleet.pods().await.into_iter().find(|pod| image(pod) == NEW).unwrap();
    release.approve().await;
    release.paused(2).await;
    assert_eq!(release.new_pods().await, 3);
    traffic::is_as_before(&release, &service).await;
    release.approve().await;
    release.over("True").await;
    release.settled(NEW).await;
    assert!(uids(&release.fleet.pods().await).contains(&uid(&first)), "{:?}", release.fleet.summary().await);
    assert!(product.stop().await.success());
}
