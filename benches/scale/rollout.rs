//! A CloneSet whose Pods are updated in place.

use std::time::{Duration, Instant};

use benches::in_memory::{ApiServer, Calls, Kind};
use benches::program::Program;
use benches::report::progress;
use benches::stand::TIMEOUT;
use kit::builders::object;
use kit::fake_nodes::{FakeNodes, Options};
use kit::wait_within;
use serde_json::json;

use crate::copies::{create, status};
use crate::unit::clone_set;

const NAMESPACE: &str = "rolled";
const NAME: &str = "rolled";
const NODES: usize = 10;

/// A CloneSet all of whose Pods run.
pub(crate) struct Rollout<'a> {
    server: &'a ApiServer,
    pods: u32,
    _nodes: FakeNodes,
}

/// What an update cost.
pub(crate) struct Cost {
    pub(crate) cpu: Duration,
    pub(crate) took: Duration,
    /// The calls of controllers.
    pub(crate) calls: usize,
}

impl<'a> Rollout<'a> {
    /// Creates it.
    pub(crate) async fn prepare(server: &'a ApiServer, pods: u32) -> Self {
        progress(&format!("a CloneSet gets {pods} Pods"));
        create(server, vec![object("v1", "Namespace", NAMESPACE)]).await;
        let options = Options::nodes(NODES).in_namespace(NAMESPACE).binding_pods();
        let nodes = FakeNodes::start(server.client(), options).await;
        create(server, vec![clone_set(NAMESPACE, NAME).replicas(pods)]).await;
        let rollout = Self { server, pods, _nodes: nodes };
        rollout.wait_updated().await;
        rollout
    }

    /// Updates its Pods to the image of this tag.
    pub(crate) async fn roll(&self, program: &Program, tag: &str) -> Cost {
        progress(&format!("it is updated to {tag}"));
        let (before, cpu, start) = (self.server.calls(), program.cpu(), Instant::now());
        let key = (NAMESPACE.to_owned(), NAME.to_owned());
        self.server.store().edit(&Kind::new("apps.kruise.io", "clonesets"), &key, |set| {
            let image = format!("registry.example.com/shop/{NAME}:{tag}");
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
            let generation = set["metadata"]["generation"].as_u64().unwrap_or_default();
            set["metadata"]["generation"] = json!(generation + 1);
        });
        self.wait_updated().await;
        let cpu = program.cpu().saturating_sub(cpu);
        let calls = self.server.calls_since(&before);
        Cost { cpu, took: start.elapsed(), calls: of_controllers(&calls) }
    }

    async fn wait_updated(&self) {
        wait_within(TIMEOUT, "the update", async || {
            let status = status(self.server, "clonesets", NAMESPACE, NAME);
            let is_done = status["updatedAvailableReplicas"] == self.pods
                && status["currentRevision"] == status["updateRevision"];
            if is_done { Ok(()) } else { Err(status) }
        })
        .await;
    }
}

/// Prints the calls of controllers by verb and resource, and counts them.
fn of_controllers(calls: &Calls) -> usize {
    let own = calls.iter().filter(|(call, _)| call.agent == "kruise-manager/controllers");
    let own: Vec<_> = own.collect();
    for (call, count) in &own {
        assert!(
            (call.verb, &*call.resource) != ("list", "pods"),
            "the leader lost its Lease: the machine is too busy"
        );
        progress(&format!("  {count} {} {} {}", call.verb, call.resource, call.code));
    }
    own.into_iter().map(|(_, count)| count).sum()
}
