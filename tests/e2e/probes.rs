//! PodProbeMarkers and NodePodProbes on a real API server (docs/behaviour/probes.md#acceptance-scenarios). The tests play
//! kubelets and agents themselves: they write what these would report.

mod agent;
mod markers;
mod nodes;
mod page;
mod platforms;
mod results;

use kit::builders::{Object, object};
use kit::objects::condition;
use kit::{Shared, wait_for};
use kube::Client;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::product::{self, Product};
use crate::support::{self, Shop, Stored, call, create, in_use};

const ALPHA: &str = "apps.kruise.io/v1alpha1";

/// Both are off by default: liveness probes that agents run, and Pods on platforms without an agent.
pub const GATES: &str = "EnhancedLivenessProbe=true,EnablePodProbeMarkerOnServerless=true";

/// The API server with the program on it, once it reviews PodProbeMarkers.
pub async fn place() -> Arc<support::Site> {
    static PLACE: Shared<support::Site> = Shared::new();
    PLACE
        .get(async || {
            let server = product::server(kit::Options::default()).await;
            let product = Product::serve(&server, product::Options::default().gates(GATES)).await;
            in_use(&server).await;
            reviewed(&server.client()).await;
            support::Site { server, product }
        })
        .await
}

/// A namespace, and a node that only one test uses.
struct Site {
    shop: Shop,
    node: String,
}

impl Site {
    /// A ready node with its NodePodProbe.
    async fn open(prefix: &str) -> Self {
        let shop = Shop::open_on(&place().await.server, prefix).await;
        let site = Self { node: shop.name("node"), shop };
        site.add_node(&site.node, json!({})).await;
        site.node_probe(&site.node).await;
        site
    }

    async fn create(&self, manifest: Object) -> Stored {
        Stored::create(&self.shop.client, manifest).await
    }

    /// A node that is ready.
    async fn add_node(&self, name: &str, labels: Value) -> Stored {
        let node = self.create(object("v1", "Node", name).with("/metadata/labels", labels)).await;
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        node.patch_status(&json!({"conditions": [ready]})).await;
        node
    }

    /// A NodePodProbe, once it is there.
    async fn node_probe(&self, node: &str) -> Stored {
        let path = format!("/apis/{ALPHA}/nodepodprobes/{node}");
        let stored = Stored::existing(&self.shop.client, path, Value::Null);
        wait_for("the NodePodProbe", async || match stored.get().await {
            (200, _) => Ok(()),
            (_, answer) => Err(answer),
        })
        .await;
        stored
    }

    /// A marker for the Pods labelled `app=web`.
    fn marker(&self, name: &str, probes: Value) -> Object {
        object(ALPHA, "PodProbeMarker", name)
            .in_namespace(&self.shop.namespace)
            .with("/spec/selector/matchLabels/app", "web")
            .with("/spec/probes", probes)
    }

    /// A Pod labelled `app=web` that runs on the node, with port 8080 named `http`.
    async fn running(&self, name: &str) -> Stored {
        let ports = json!([{"name": "http", "containerPort": 8080}]);
        self.start(self.shop.pod(name).having("ports", ports).on_node(&self.node)).await
    }

    /// Creates a Pod and says that it runs.
    async fn start(&self, pod: Object) -> Stored {
        let pod = self.create(pod).await;
        let initialized = json!({"type": "Initialized", "status": "True"});
        pod.patch_status(&json!({"phase": "Running", "podIP": "10.0.0.7", "conditions": [initialized]}))
            .await;
        pod
    }

    /// A Pod of a CloneSet whose liveness probe the agent is to run.
    fn with_moved_liveness_probe(&self, name: &str, probe: Value) -> Object {
        let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "web", "uid": "7d9a0000-0000-0000-0000-000000000001"}});
        let pod = self.shop.pod(name).on_node(&self.node).having("livenessProbe", probe);
        pod.annotation("apps.kruise.io/using-enhanced-liveness", "true").controlled_by(&owner)
    }

    /// The request to restart containers, once there is one.
    async fn request(&self) -> Value {
        let namespace = &self.shop.namespace;
        let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{namespace}/containerrecreaterequests");
        wait_for("the request", async || {
            let requests = call(&self.shop.client, "GET", &path, &Value::Null).await.1;
            match requests["items"].as_array().map(Vec::as_slice) {
                Some([request]) => Ok(request.clone()),
                _ => Err(requests),
            }
        })
        .await
    }

    /// Waits until the NodePodProbe of the node says this of Pods of the namespace.
    async fn says(&self, expected: &Value) {
        wait_for(&format!("the probes {expected}"), async || {
            let reported = self.node_probe(&self.node).await.get().await.1["spec"]["podProbes"].clone();
            let reported = if reported.is_null() { json!([]) } else { reported };
            if reported == *expected { Ok(()) } else { Err(reported) }
        })
        .await;
    }

    /// Waits until the NodePodProbe has the probes of these names, in order, one Pod after the other.
    async fn runs(&self, names: &[&str]) {
        wait_for(&format!("the probes {names:?}"), async || {
            let reported = self.node_probe(&self.node).await.get().await.1["spec"]["podProbes"].clone();
            let pods = reported.as_array().into_iter().flatten();
            let probes = pods.flat_map(|pod| pod["probes"].as_array().into_iter().flatten());
            let known: Vec<String> = probes.map(|probe| probe["name"].as_str().unwrap().to_owned()).collect();
            if known == names { Ok(()) } else { Err(known) }
        })
        .await;
    }

    /// What the agent reports of a Pod: name, state and message of each probe.
    async fn report(&self, pod: &Stored, states: &[(&str, &str, &str)]) {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let states = states.iter().map(|(name, state, message)| {
            json!({"name": name, "state": state, "message": message, "lastProbeTime": now,
                "lastTransitionTime": now})
        });
        let metadata = &pod.object["metadata"];
        let status = json!({"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
            "probeStates": states.collect::<Vec<_>>()});
        self.node_probe(&self.node).await.patch_status(&json!({"podProbeStatuses": [status]})).await;
    }
}

/// Waits until the program is asked about PodProbeMarkers.
async fn reviewed(client: &Client) {
    let wrong = object(ALPHA, "PodProbeMarker", "probe").in_namespace("default");
    let wrong = wrong.with("/spec/selector/matchLabels/app", "web");
    let wrong =
        wrong.with("/spec/probes", json!([{"name": "a#b", "containerName": "main", "probe": {}}])).build();
    wait_for("PodProbeMarkers to be reviewed", async || {
        match create(client, wrong.clone(), "?dryRun=All").await {
            (400, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
}

/// A probe of container `main` that runs a command.
fn exec(name: &str) -> Value {
    json!({"name": name, "containerName": "main", "probe": {"exec": {"command": ["check"]}, "periodSeconds": 5},
        "podConditionType": format!("game.example.com/{name}")})
}

/// The status of container `main` that runs under this ID.
fn running(id: &str) -> Value {
    json!({"name": "main", "image": "nginx:1.25", "imageID": "nginx@1", "ready": true, "restartCount": 0,
        "containerID": id, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
}

/// Waits until the object is like that, and gives it.
async fn until(what: &str, object: &Stored, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, async || {
        let (_, object) = object.get().await;
        if is_so(&object) { Ok(object) } else { Err(object) }
    })
    .await
}
