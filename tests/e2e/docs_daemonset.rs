//! The pages about DaemonSets and BroadcastJobs, whose Pods run on all nodes of a cluster.

use kit::{FakeNodes, Options, fake_nodes};

use crate::support::in_use;
use crate::{docs, product};

#[tokio::test]
async fn the_pages_about_pods_on_every_node_work() {
    let server = product::server(Options::default()).await;
    let product = product::Product::serve(&server, product::Options::default()).await;
    in_use(&server).await;
    let nodes = FakeNodes::start(server.client(), fake_nodes::Options::nodes(3).binding_pods()).await;
    let (first, second) = (server.namespace("docs").await, server.namespace("docs").await);
    tokio::join!(docs::daemonset(&server, &first), docs::broadcastjob(&server, &second));
    drop((nodes, product));
}
