//! CloneSets with real containers: what restarts, and what stays.

use crate::docs;
use crate::site::Site;

#[tokio::test]
async fn the_walk_through_of_clonesets_works() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("walk").await;
    docs::cloneset(site.server(), &namespace).await;
}

/// Launch order, grace period, and a Pod that a finalizer holds back from its deletion.
#[tokio::test]
async fn updates_in_place_keep_their_order_and_hooks_hold_pods() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("inplace").await;
    docs::in_place_update(site.server(), &namespace).await;
}
