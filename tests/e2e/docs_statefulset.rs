//! The page about StatefulSets.

use kit::{ApiServer, Expansion, FakeNodes, Options, Provisioner, fake_nodes};

use crate::support::in_use;
use crate::{docs, product};

#[tokio::test]
async fn the_page_about_stateful_sets_works() {
    let server = ApiServer::start(Options::default()).await;
    product::install(&server).await;
    let gates = product::Options::default().gates("StatefulSetAutoResizePVCGate=true");
    let product = product::Product::serve(&server, gates).await;
    in_use(&server).await;
    let nodes = FakeNodes::start(server.client(), fake_nodes::Options::nodes(2).binding_pods()).await;
    let folder = tempfile::tempdir().unwrap();
    let provisioner =
        Provisioner::start(server.client(), "expandable", Some(Expansion::AtOnce), folder.path()).await;
    let namespace = server.namespace("docs").await;
    docs::statefulset(&server, &namespace).await;
    drop((provisioner, nodes, product));
}
