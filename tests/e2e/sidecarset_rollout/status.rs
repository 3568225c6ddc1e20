//! The status.

use serde_json::json;

use super::{Fleet, OLD};
use crate::support::{Shop, annotation};

const INJECTED: &str = "kruise.io/sidecarset-injected-list";

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
