//! The page about BroadcastJobs.

use kit::{ApiServer, FakeNodes, Options, fake_nodes};

use crate::support::in_use;
use crate::{docs, product};

#[tokio::test]
async fn the_page_about_broadcast_jobs_works() {
    let server = ApiServer::start(Options::default()).await;
    product::install(&server).await;
    let product = product::Product::serve(&server, product::Options::default()).await;
    in_use(&server).await;
    let nodes = FakeNodes::start(server.client(), fake_nodes::Options::nodes(3).binding_pods()).await;
    let namespace = server.namespace("docs").await;
    docs::broadcastjob(&server, &namespace).await;
    drop((nodes, product));
}
