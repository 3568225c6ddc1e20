//! The pages about CloneSets and StatefulSets, and `kutter explain` where there is nothing to explain.

use kit::{Expansion, FakeNodes, Options, Provisioner, fake_nodes};

use crate::support::in_use;
use crate::{docs, product};

#[tokio::test]
async fn the_pages_about_clonesets_and_statefulsets_work() {
    let server = product::server(Options::default()).await;
    let gates = "PreDownloadImageForInPlaceUpdate=true,StatefulSetAutoResizePVCGate=true";
    let product = product::Product::serve(&server, product::Options::default().gates(gates)).await;
    in_use(&server).await;
    let nodes = FakeNodes::start(server.client(), fake_nodes::Options::nodes(2).binding_pods()).await;
    let folder = tempfile::tempdir().unwrap();
    let provisioner =
        Provisioner::start(server.client(), "expandable", Some(Expansion::AtOnce), folder.path()).await;
    let (first, second) = (server.namespace("docs").await, server.namespace("docs").await);
    let third = server.namespace("docs").await;
    tokio::join!(
        docs::cloneset(&server, &first),
        docs::in_place_update(&server, &second),
        docs::statefulset(&server, &third),
    );
    drop((provisioner, nodes, product));
}

#[tokio::test]
async fn what_does_not_exist_is_not_explained() {
    let server = kit::shared().await;
    let namespace = kit::namespace("explain").await;
    product::shared().await;
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
    let output = product::run(&["explain", "cloneset", "web", "-n", &namespace, &kubeconfig]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, format!("error: there is no CloneSet web in namespace {namespace}\n"));
}
