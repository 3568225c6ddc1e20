//! The page about PodProbeMarkers. Nodes are fake ones, and the agent finds every check successful.

use std::time::Duration;

use kit::{FakeNodes, fake_nodes};
use tokio::task::JoinHandle;

use super::*;
use crate::docs::Reader;

/// Ends its work with the test.
struct Agent(JoinHandle<()>);

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Agent {
    /// The agent of a node, until it is dropped.
    fn of(node: Stored) -> Self {
        Self(tokio::spawn(async move {
            let mut looks = tokio::time::interval(Duration::from_millis(50));
            loop {
                looks.tick().await;
                look(&node).await;
            }
        }))
    }
}

/// Reports that every check succeeds.
async fn look(node: &Stored) {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (_, known) = node.get().await;
    let reported = known["status"]["podProbeStatuses"].as_array().cloned().unwrap_or_default();
    let of_probe = |probe: &Value| json!({"name": probe["name"], "state": "Succeeded", "lastProbeTime": now, "lastTransitionTime": now});
    let of_pod = |pod: &Value| {
        let probes = pod["probes"].as_array().into_iter().flatten().map(of_probe);
        json!({"namespace": pod["namespace"], "name": pod["name"], "uid": pod["uid"],
            "probeStates": probes.collect::<Vec<_>>()})
    };
    let pods = known["spec"]["podProbes"].as_array().into_iter().flatten();
    let states: Vec<Value> = pods.map(of_pod).collect();
    if states.len() != reported.len() {
        let status = json!({"status": {"podProbeStatuses": states}});
        let (code, answer) = node.try_patch_part("status", &status).await;
        assert!(matches!(code, 200 | 404), "{answer:#}");
    }
}

#[tokio::test]
async fn the_page_about_pod_probe_markers_works() {
    let server = &place().await.server;
    let site = Site::open("docs-probes").await;
    let options = fake_nodes::Options::nodes(1).binding_pods().in_namespace(&site.shop.namespace);
    let nodes = FakeNodes::start(server.client(), options).await;
    let agent = Agent::of(site.node_probe(&nodes.names()[0]).await);
    let mut page = Reader::open(server, &site.shop.namespace, "podprobemarker.md").await;
    page.read("Some Pods").await;
    let printed = page.read("Mark the Pods that are idle").await;
    assert!(printed.contains("1 checked"), "{printed}");
    let printed = page.read("What the agent runs").await;
    assert!(printed.contains("game#idle: Succeeded"), "{printed}");
    let printed = page.read("In the end").await;
    assert!(printed.contains("idle=true"), "{printed}");
    page.end();
    drop((nodes, agent));
}
