//! The page about PodUnavailableBudgets.

use kit::{ApiServer, FakeNodes, fake_nodes};

use crate::docs::Reader;
use crate::support::shared;

#[tokio::test]
async fn the_page_about_budgets_works() {
    let server = shared().await.0;
    let namespace = server.namespace("docs-budget").await;
    let options = fake_nodes::Options::nodes(2).binding_pods().in_namespace(&namespace);
    let nodes = FakeNodes::start(server.client(), options).await;
    read(server, &namespace).await;
    drop(nodes);
}

async fn read(server: &ApiServer, namespace: &str) {
    let mut page = Reader::open(server, namespace, "podunavailablebudget.md").await;
    let printed = page.read("Protect an application").await;
    let open = format!("PodUnavailableBudget {namespace}/web: open\n");
    assert!(printed.contains(&open) && printed.contains("counts 4: web-"), "{printed}");
    let held = page.read("Hold every Pod").await;
    for part in
        ["pub unavailable allowed is negative", "it is held\n", "it would be held\n", "PubPreventPodDeletion"]
    {
        assert!(held.contains(part), "{part}: {held}");
    }
    let waiting = page.read("Who uses it up?").await;
    assert!(
        waiting.contains("nothing left: code 2\n") && waiting.contains("\"state\": \"exhausted\""),
        "{waiting}"
    );
    page.read("Let a Pod pass").await;
    page.read("Hold evictions only").await;
    page.read("In the end").await;
    page.end();
}
