//! The pages about CloneSets, and `kutter explain` where there is nothing to explain.

use kit::{ApiServer, FakeNodes, fake_nodes};

use crate::support::in_use;
use crate::{docs, product};

/// An API server with the program on it, as the pages want it.
async fn open() -> (ApiServer, product::Product) {
    let server = ApiServer::start(kit::Options::default()).await;
    product::install(&server).await;
    let options = product::Options::default().gates("PreDownloadImageForInPlaceUpdate=true");
    let product = product::Product::serve(&server, options).await;
    in_use(&server).await;
    (server, product)
}

#[tokio::test]
async fn the_pages_about_clonesets_work() {
    let (server, _product) = open().await;
    let nodes = FakeNodes::start(server.client(), fake_nodes::Options::nodes(2).binding_pods()).await;
    let (first, second) = (server.namespace("docs").await, server.namespace("docs").await);
    tokio::join!(docs::cloneset(&server, &first), docs::in_place_update(&server, &second));
    drop(nodes);
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
