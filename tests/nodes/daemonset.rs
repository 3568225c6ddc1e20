//! DaemonSets and BroadcastJobs with real containers on real Nodes: updates in place, rollouts that start the new Pod first,
//! and Pods that run to their end.

use crate::docs;
use crate::site::Site;

#[tokio::test]
async fn the_walk_through_of_daemon_sets_works() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("agents").await;
    docs::daemonset(site.server(), &namespace).await;
}

#[tokio::test]
async fn the_page_about_broadcast_jobs_works() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("jobs").await;
    docs::broadcastjob(site.server(), &namespace).await;
}
