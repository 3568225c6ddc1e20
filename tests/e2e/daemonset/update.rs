//! How Pods come to a new revision (docs/behaviour/daemonset.md#update-step).

use serde_json::json;

use super::{asked, complete, identities, launch, rolling};
use crate::support::fleet::{IN_PLACE_UPDATE_READY, NEW, REVISION, condition, has_begun, label, name};

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

#[tokio::test]
async fn the_next_pod_waits_for_no_clock() {
    let in_place = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1});
    let fleet = launch(asked().await, "daemonset-pace", 6, |set| rolling(set, in_place)).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    complete(&fleet).await;
    chronicle.assert_no_clock("DaemonSet", has_begun).await;
}
