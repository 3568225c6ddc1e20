//! Sidecars of running Pods change in place, as many at a time as is allowed.

use kit::{fake_nodes, wait_for};
use serde_json::{Value, json};

use super::{
    Fleet, HASH, HASH_WITHOUT_IMAGE, NEW, OLD, UPGRADABLE, condition, image_of, is_ready, record, restarts,
};
use crate::support::{Stored, annotation, named};

const IN_PLACE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";

/// Scenario 13 of docs/behaviour/sidecarset.md, docs/behaviour/sidecarset.md#updating-one-pod.
#[tokio::test]
async fn one_pod_after_the_other_restarts_nothing_but_its_sidecar() {
    let fleet = Fleet::open("roll", |set| set).await;
    for number in 0..3 {
        let pod = fleet.shop.pod(&format!("web-{number}")).annotation(fake_nodes::READY_AFTER, "300");
        fleet.shop.admit(pod).await;
    }
    fleet.wait_status("three ready Pods", json!({"readyPods": 3})).await;
    let before = fleet.pods().await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW, json!({})).await;
    fleet.wait_status("all Pods to be updated", json!({"updatedPods": 3, "updatedReadyPods": 3})).await;
    let new = |pod: &Value| image_of(pod, "log") == NEW;
    let busy = |pods: &[&Value]| {
        pods.iter().filter(|pod| new(pod) && (!is_ready(pod) || restarts(pod, "log") == 0)).count()
    };
    assert_eq!(chronicle.range(busy).await, (0, 1));
    for pod in &before {
        assert_eq!(chronicle.course(&super::name(pod), new).await, [false, true], "none goes back");
    }
    let set = fleet.set.get().await.1;
    for (before, after) in before.iter().zip(fleet.pods().await) {
        assert_eq!((restarts(&after, "main"), restarts(&after, "log")), (0, 1));
        let entry = record(&after, HASH, &fleet.name());
        assert_eq!(entry["hash"].as_str().unwrap(), annotation(&set, HASH));
        assert_eq!(entry["controllerRevision"], set["status"]["latestRevision"]);
        assert_eq!(
            (&entry["sidecarSetName"], &entry["sidecarList"]),
            (&json!(fleet.name()), &json!(["log"]))
        );
        assert_eq!(annotation(&after, HASH_WITHOUT_IMAGE), annotation(before, HASH_WITHOUT_IMAGE));
        let state = record(&after, IN_PLACE_STATE, &fleet.name());
        assert_eq!(state["revision"], entry["hash"]);
        let image_id = &named(&before["status"]["containerStatuses"], "log")["imageID"];
        assert_eq!(state["lastContainerStatuses"], json!({"log": {"imageID": image_id}}));
        let upgradable = condition(&after, UPGRADABLE);
        assert_eq!(
            (&upgradable["status"], &upgradable["reason"]),
            (&json!("True"), &json!("AllSidecarsetUpgradable"))
        );
        assert_eq!(upgradable["message"], format!("{{\"{}\":true}}", fleet.name()));
    }
}

/// The Pods stay ready, as the sidecar is back at once: only the report on its container says that the next may go.
#[tokio::test]
async fn the_next_pod_waits_for_no_clock() {
    let fleet = Fleet::launch("pace", 6, |set| set).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW, json!({})).await;
    fleet.wait_status("all Pods to be updated", json!({"updatedPods": 6, "updatedReadyPods": 6})).await;
    let unready = |pods: &[&Value]| pods.iter().filter(|pod| !is_ready(pod)).count();
    assert_eq!(chronicle.range(unready).await, (0, 0));
    chronicle.assert_no_clock("SidecarSet", |pod| image_of(pod, "log") == NEW).await;
}

/// Scenario 16.
#[tokio::test]
async fn a_pause_concerns_running_pods_only() {
    let fleet = Fleet::launch("pause", 2, |set| set).await;
    fleet.roll(NEW, json!({"updateStrategy": {"paused": true}})).await;
    fleet.shop.settle().await;
    fleet.shop.admit(fleet.shop.pod("web-2")).await;
    fleet
        .wait_status(
            "the new Pod alone to be new",
            json!({"matchedPods": 3, "updatedReadyPods": 1, "readyPods": 3}),
        )
        .await;
    assert_eq!(fleet.with_image(NEW).await, ["web-2"]);
    fleet.set.patch(&json!({"spec": {"updateStrategy": {"paused": false}}})).await;
    fleet.wait_status("all to be new", json!({"updatedReadyPods": 3})).await;
}

/// Scenario 17, docs/behaviour/sidecarset.md#condition-sidecarsetupgradable.
#[tokio::test]
async fn what_cannot_change_in_place_is_reported_and_skipped() {
    let fleet = Fleet::launch("env", 2, |set| set).await;
    let mut containers = fleet.set.get().await.1["spec"]["containers"].clone();
    let original = containers.clone();
    containers[0]["image"] = json!(NEW);
    containers[0]["env"] = json!([{"name": "LEVEL", "value": "debug"}]);
    fleet.set.patch(&json!({"spec": {"containers": containers}})).await;
    let reported = async |pod: &str, status: &str| {
        wait_for(&format!("{pod} to be told"), async || {
            let pod = fleet.pod(pod).get().await.1;
            let found = condition(&pod, UPGRADABLE).clone();
            if found["status"] == status { Ok(found) } else { Err(found) }
        })
        .await
    };
    for pod in ["web-0", "web-1"] {
        let upgradable = reported(pod, "False").await;
        assert_eq!(upgradable["reason"], "UpdateImmutableField");
        assert_eq!(upgradable["message"], format!("{{\"{}\":false}}", fleet.name()));
        assert!(upgradable["lastTransitionTime"].is_string(), "{upgradable:#}");
    }
    let note = fleet.event("default", &fleet.name(), "NotUpgradablePods").await;
    assert_eq!(
        note,
        "SidecarSet in-place update detected 2 not upgradable pod(s) in this round, will skip them."
    );
    assert_eq!(fleet.with_image(OLD).await, ["web-0", "web-1"]);

    fleet.pod("web-0").deleted().await;
    fleet.pod("web-0").gone().await;
    fleet.shop.settle().await;
    let again = fleet.shop.admit(fleet.shop.pod("web-0")).await;
    assert_eq!(named(&named(&again["spec"]["containers"], "log")["env"], "LEVEL")["value"], "debug");
    fleet.wait_status("the new Pod to be updated", json!({"matchedPods": 2, "updatedReadyPods": 1})).await;

    fleet.set.patch(&json!({"spec": {"containers": original}})).await;
    reported("web-1", "True").await;
}

/// Two SidecarSets in one Pod keep their records apart.
#[tokio::test]
async fn two_sets_update_the_same_pod_independently() {
    let fleet = Fleet::open("two", |set| set).await;
    let other =
        Stored::create(&fleet.shop.client, fleet.shop.sidecar_set("mesh").container("mesh", OLD)).await;
    fleet.shop.settle().await;
    fleet.shop.admit(fleet.shop.pod("web-0")).await;
    fleet.wait_status("the Pod to be ready", json!({"readyPods": 1})).await;
    fleet.roll(NEW, json!({})).await;
    let mut containers = other.get().await.1["spec"]["containers"].clone();
    containers[0]["image"] = json!("busybox:1.37");
    other.patch(&json!({"spec": {"containers": containers}})).await;
    let message = format!("{{\"{}\":true,\"{}\":true}}", fleet.name(), fleet.shop.name("mesh"));
    let pod = wait_for("both sidecars to be updated", async || {
        let pod = fleet.pod("web-0").get().await.1;
        let is_done = (image_of(&pod, "log"), image_of(&pod, "mesh")) == (NEW, "busybox:1.37")
            && ["log", "mesh"].iter().all(|sidecar| restarts(&pod, sidecar) > 0)
            && condition(&pod, UPGRADABLE)["message"] == message;
        if is_done { Ok(pod) } else { Err(pod) }
    })
    .await;
    assert_eq!((restarts(&pod, "main"), restarts(&pod, "log"), restarts(&pod, "mesh")), (0, 1, 1));
}

/// The manifests in the documentation.
#[tokio::test]
async fn the_documented_manifests_work() {
    let (server, _) = crate::support::shared().await;
    let shop = crate::support::Shop::open("documented").await;
    for (page, count) in [("sidecarset-update.md", 2), ("sidecar-terminator.md", 1)] {
        let text = std::fs::read_to_string(format!("{}/docs/{page}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let manifests: Vec<&str> =
            text.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
        assert_eq!(manifests.len(), count, "{page}");
        for manifest in manifests {
            let words = ["apply", "--filename=-", "--output=json"];
            let set = server.kubectl_with_input(words, manifest).await.success();
            let set: Value = serde_json::from_str(&set).unwrap();
            shop.settle().await;
            let labels = set["spec"]["selector"]["matchLabels"].clone();
            let pod = shop.admit(shop.pod(&super::name(&set)).with("/metadata/labels", labels)).await;
            let injected = annotation(&pod, "kruise.io/sidecarset-injected-list");
            assert_eq!(injected, super::name(&set));
            server.kubectl_with_input(["delete", "-f", "-"], manifest).await.success();
        }
    }
}
