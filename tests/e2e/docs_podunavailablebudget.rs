//! The page about PodUnavailableBudgets.

use kit::{FakeNodes, fake_nodes};

use crate::docs;
use crate::support::shared;

#[tokio::test]
async fn the_page_about_budgets_works() {
    let server = shared().await.0;
    let namespace = server.namespace("docs-budget").await;
    let options = fake_nodes::Options::nodes(2).binding_pods().in_namespace(&namespace);
    let nodes = FakeNodes::start(server.client(), options).await;
    docs::budget(server, &namespace).await;
    drop(nodes);
}
