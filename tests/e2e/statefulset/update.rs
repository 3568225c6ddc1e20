//! How Pods come to another revision (docs/behaviour/statefulset.md#update-step).

use super::{asked, in_place, launch, named};
use crate::chronicle::staying;
use crate::support::fleet::{NEW, REVISION, has_begun, image, is_ready, label, name, restarts, uids};

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

#[tokio::test]
async fn the_next_pod_waits_for_no_clock() {
    let fleet = launch(asked().await, "statefulset-pace", |set| in_place(set.replicas(6))).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    fleet.complete().await;
    chronicle.assert_no_clock("StatefulSet", has_begun).await;
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
