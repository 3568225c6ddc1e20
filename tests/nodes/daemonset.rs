//! DaemonSets with real containers on real Nodes: updates in place, and rollouts that start the new Pod first.

use crate::docs;
use crate::site::Site;

#[tokio::test]
async fn the_walk_through_of_daemon_sets_works() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("agents").await;
    docs::daemonset(site.server(), &namespace).await;
}
