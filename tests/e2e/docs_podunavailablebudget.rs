//! The page about PodUnavailableBudgets.

use kit::builders::object;
use kit::{ApiServer, FakeNodes, fake_nodes};
use serde_json::json;

use crate::docs::Reader;
use crate::support::{Stored, in_conflict, shared};

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
    budgets_seen(server, namespace).await;
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
    let protecting = page.read("Hold Pods that are not ready").await;
    assert!(protecting.contains("kutter.io/unhealthy-pods holds Pods that are not ready"), "{protecting}");
    page.read("Hold evictions only").await;
    page.read("In the end").await;
    page.end();
}

/// Waits until admission has observed the budgets with what the controller counted: it sees one more, and a watch
/// keeps the order.
async fn budgets_seen(server: &ApiServer, namespace: &str) {
    let client = server.client();
    let budget = |name: &str| {
        let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "sentinel"});
        object("policy.kruise.io/v1beta1", "PodUnavailableBudget", name)
            .in_namespace(namespace)
            .with("/spec", json!({"targetRef": target, "maxUnavailable": 1}))
    };
    let sentinel = Stored::create(&client, budget("sentinel")).await;
    in_conflict(&client, budget("rival")).await;
    sentinel.deleted().await;
}
