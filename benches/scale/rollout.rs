//! A CloneSet whose Pods are updated in place.

use std::time::{Duration, Instant};

use benches::calls::Calls;
use benches::program::Program;
use benches::report::progress;
use benches::stand::create;
use kit::builders::object;
use kit::fake_nodes::{FakeNodes, Options};
use kube::Client;
use serde_json::json;

use crate::stand::Stand;
use crate::unit::clone_set;

const NAMESPACE: &str = "rolled";
const NAME: &str = "rolled";
const PATH: &str = "/apis/apps.kruise.io/v1beta1/namespaces/rolled/clonesets/rolled";
const NODES: usize = 10;

/// A CloneSet all of whose Pods run.
pub(crate) struct Rollout<'a> {
    stand: &'a Stand<'a>,
}

/// What an update cost.
pub(crate) struct Cost {
    pub(crate) cpu: Duration,
    pub(crate) took: Duration,
    /// The calls of controllers.
    pub(crate) calls: usize,
}

/// Starts nodes for its Pods alone.
pub(crate) async fn nodes(client: &Client) -> FakeNodes {
    let options = Options::nodes(NODES).in_namespace(NAMESPACE).binding_pods();
    FakeNodes::start(client.clone(), options).await
}

impl<'a> Rollout<'a> {
    /// Creates it.
    pub(crate) async fn prepare(stand: &'a Stand<'a>) -> Self {
        let pods = stand.arguments.pods;
        progress(&format!("a CloneSet gets {pods} Pods"));
        create(&stand.client, [object("v1", "Namespace", NAMESPACE)]).await;
        create(&stand.client, [clone_set(NAMESPACE, NAME).replicas(pods)]).await;
        let rollout = Self { stand };
        rollout.wait_updated().await;
        rollout
    }

    /// Updates its Pods to the image of this tag.
    pub(crate) async fn roll(&self, program: &Program, tag: &str) -> Cost {
        progress(&format!("it is updated to {tag}"));
        let before = self.stand.calls();
        let (cpu, start) = (program.cpu(), Instant::now());
        let image = format!("registry.example.com/shop/{NAME}:{tag}");
        let patch =
            json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]);
        let patch = http::Request::patch(PATH)
            .header("content-type", "application/json-patch+json")
            .body(patch.to_string().into_bytes());
        let patch = self.stand.client.request_text(patch.expect("a request"));
        patch.await.expect("the CloneSet can be patched");
        self.wait_updated().await;
        let (cpu, took) = (program.cpu().saturating_sub(cpu), start.elapsed());
        Cost { cpu, took, calls: of_controllers(&self.stand.calls_since(&before)) }
    }

    async fn wait_updated(&self) {
        self.stand
            .wait_status(PATH, |status| {
                status["updatedAvailableReplicas"] == self.stand.arguments.pods
                    && status["currentRevision"] == status["updateRevision"]
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
            (&*call.verb, &*call.resource) != ("list", "pods"),
            "the leader lost its Lease: the machine is too busy"
        );
        progress(&format!("  {count} {} {} {}", call.verb, call.resource, call.code));
    }
    own.into_iter().map(|(_, count)| count).sum()
}
