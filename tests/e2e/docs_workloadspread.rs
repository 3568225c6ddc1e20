//! The page about WorkloadSpreads.

use kit::builders::object;
use kit::{ApiServer, FakeNodes, fake_nodes, wait_for};
use serde_json::json;

use crate::docs::Reader;
use crate::support::{in_conflict, shared};

#[tokio::test]
async fn the_page_about_spreads_works() {
    let server = shared().await.0;
    let namespace = server.namespace("docs-spread").await;
    let options = fake_nodes::Options::nodes(2).binding_pods().in_namespace(&namespace);
    let nodes = FakeNodes::start(server.client(), options).await;
    read(server, &namespace).await;
    drop(nodes);
}

async fn read(server: &ApiServer, namespace: &str) {
    let mut page = Reader::open(server, namespace, "workloadspread.md").await;
    page.read("Divide a workload").await;
    admission_knows(server, namespace).await;
    let printed = page.read("Create the workload").await;
    let of = |printed: &str, pool: &str| {
        let staying = printed.lines().filter(|line| !line.contains("Terminating"));
        staying.filter(|line| line.trim_end().ends_with(pool)).count()
    };
    assert_eq!((of(&printed, "reserved"), of(&printed, "elastic")), (2, 1), "{printed}");
    let next = page.read("Where does the next Pod go?").await;
    for part in [
        "subset elastic: 1 active, no limit; takes the next Pod",
        "is in subset reserved",
        "\"state\": \"open\"",
    ] {
        assert!(next.contains(part), "{part}: {next}");
    }
    wait_for("the deletion costs of three Pods", async || {
        let words = "kubectl get pods -l app=web \
            -o jsonpath='{.items[*].metadata.annotations.controller\\.kubernetes\\.io/pod-deletion-cost}'";
        let costs = page.shell(words).await.success();
        if costs.split_whitespace().count() == 3 { Ok(()) } else { Err(costs) }
    })
    .await;
    let fewer = page.read("Scale in").await;
    assert_eq!((of(&fewer, "reserved"), of(&fewer, "elastic")), (2, 0), "{fewer}");
    let before = page.read("Before it happens").await;
    assert!(before.contains("matched-workloadspread"), "{before}");
    page.read("In the end").await;
    page.end();
}

/// Waits until admission knows the WorkloadSpread: another one for the same workload would be refused.
async fn admission_knows(server: &ApiServer, namespace: &str) {
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    let rival = object("apps.kruise.io/v1beta1", "WorkloadSpread", "rival")
        .in_namespace(namespace)
        .with("/spec", json!({"targetRef": target, "subsets": [{"name": "any"}]}));
    in_conflict(&server.client(), rival).await;
}
