//! The status, and that it never goes stale.

use serde_json::json;

use super::{Fleet, NEW, OLD};
use crate::support::{Shop, Stored, annotation};

const INJECTED: &str = "kruise.io/sidecarset-injected-list";

/// Scenario 12.
#[tokio::test]
async fn only_pods_with_the_sidecar_are_counted() {
    let shop = Shop::open("counts").await;
    Stored::create(&shop.client, shop.pod("earlier")).await;
    let fleet = Fleet::open_in(shop, |set| set).await;
    // A Pod that slipped past injection: its labels match, its containers do not.
    fleet.shop.admit(fleet.shop.pod("bare").label("app", "other")).await;
    fleet.pod("bare").label("app", "web").await;
    for number in 0..4 {
        fleet.shop.admit(fleet.shop.pod(&format!("web-{number}"))).await;
    }
    // All Pods of the namespace are updated once these are: were another one counted, more would match.
    let status =
        fleet.wait_status("four Pods", json!({"matchedPods": 4, "updatedPods": 4, "readyPods": 4})).await;
    assert_eq!((&status["updatedReadyPods"], &status["collisionCount"]), (&json!(4), &json!(0)));
}

/// Scenario 18, docs/behaviour/sidecarset.md#triggers: also for type `NotUpdate` every change of a Pod shows.
#[tokio::test]
async fn a_set_that_never_updates_counts_all_the_same() {
    let fleet = Fleet::launch("never", 2, |set| set.with("/spec/updateStrategy/type", "NotUpdate")).await;
    fleet.roll(NEW, json!({})).await;
    fleet
        .wait_status("no Pod to be updated", json!({"matchedPods": 2, "updatedPods": 0, "readyPods": 2}))
        .await;
    assert_eq!(fleet.with_image(OLD).await, ["web-0", "web-1"]);
    fleet.pod("web-0").patch(&json!({"metadata": {"annotations": {"fake-node/ready-after": "never"}}})).await;
    fleet.wait_status("one Pod to be unready", json!({"matchedPods": 2, "readyPods": 1})).await;
    fleet.pod("web-0").deleted().await;
    fleet.wait_status("one Pod to be left", json!({"matchedPods": 1, "readyPods": 1})).await;
    fleet.shop.settle().await;
    fleet.shop.admit(fleet.shop.pod("web-2")).await;
    fleet
        .wait_status("the new Pod to be updated", json!({"matchedPods": 2, "updatedPods": 1, "readyPods": 2}))
        .await;
}

/// A SidecarSet for one namespace only counts what is in there.
#[tokio::test]
async fn pods_of_other_namespaces_are_not_counted() {
    let fleet = Fleet::launch("here", 1, |set| set).await;
    // It says that it has the sidecar and looks so, but no node runs it.
    let elsewhere = Shop::open("elsewhere").await;
    let foreign = elsewhere.pod("web-9").annotation(INJECTED, &fleet.name()).container("log", OLD);
    let foreign = elsewhere.admit(foreign).await;
    assert_eq!(annotation(&foreign, INJECTED), fleet.name());
    fleet.shop.admit(fleet.shop.pod("web-1")).await;
    fleet.wait_status("two Pods that are ready", json!({"matchedPods": 2, "readyPods": 2})).await;
}
