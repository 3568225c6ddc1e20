//! The page about the plugin.

use kit::{FakeNodes, fake_nodes};

use crate::docs::Reader;
use crate::support::shared;

#[tokio::test]
async fn the_page_about_the_plugin_works() {
    let (server, _) = shared().await;
    let namespace = server.namespace("plugin-docs").await;
    let options = fake_nodes::Options::nodes(2).in_namespace(&namespace).binding_pods();
    let _nodes = FakeNodes::start(server.client(), options).await;
    let mut page = Reader::open(server, &namespace, "kubectl-kruise.md").await;
    let printed = page.read("A workload").await;
    assert!(printed.contains("3 new pods have been updated"), "{printed}");
    let printed = page.read("Change it, and watch").await;
    assert!(printed.contains("cloneset.apps.kruise.io/web image updated\n"), "{printed}");
    assert!(printed.contains("LEVEL") && printed.contains("(server dry run)"), "{printed}");
    let printed = page.read("Go back").await;
    assert!(printed.contains("cloneset.apps.kruise.io/web rolled back\n"), "{printed}");
    let printed = page.read("Remove Pods of your choice").await;
    assert_eq!(printed, "cloneset.apps.kruise.io/web selective pod deletion\n");
    let printed = page.read("Why, and what if").await;
    assert!(printed.contains("CloneSet") && printed.contains("cloneset.apps.kruise.io/web"), "{printed}");
    page.end();
}
