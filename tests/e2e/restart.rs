//! ContainerRecreateRequests and EphemeralJobs on a real API server (docs/behaviour/restarts.md#acceptance-scenarios).
//! The tests play the node agent and the kubelet themselves: they write what these would report.

mod jobs;
mod requests;

use kit::builders::{Object, object, pod};
use kit::fake_nodes::reported;
use kit::objects::condition;
use kit::wait_for;
use serde_json::{Value, json};

use crate::support::{Shop, Stored};

const BETA: &str = "apps.kruise.io/v1beta1";
const ALPHA: &str = "apps.kruise.io/v1alpha1";

/// A namespace and a node without a kubelet.
struct Site {
    shop: Shop,
    node: String,
}

impl Site {
    async fn open(prefix: &str) -> Self {
        let shop = Shop::open(prefix).await;
        let node = shop.name("node");
        Stored::create(&shop.client, object("v1", "Node", &node)).await;
        Self { shop, node }
    }

    /// A Pod with the containers `main` and `side`, labelled `app=web`.
    fn pod(&self, name: &str) -> Object {
        let pod = pod(name).in_namespace(&self.shop.namespace).label("app", "web").on_node(&self.node);
        let hook = json!({"preStop": {"exec": {"command": ["sync"]}}});
        pod.container("main", "nginx:1.25").having("lifecycle", hook).container("side", "busybox:1.36")
    }

    /// Creates a Pod and says that it runs.
    async fn running(&self, pod: Object) -> Stored {
        let pod = Stored::create(&self.shop.client, pod).await;
        let (statuses, ready) = (&reported(&pod.object)["containerStatuses"], json!("True"));
        let conditions =
            json!([{"type": "ContainersReady", "status": ready}, {"type": "Ready", "status": ready}]);
        pod.patch_status(
            &json!({"phase": "Running", "containerStatuses": statuses, "conditions": conditions}),
        )
        .await;
        pod
    }

    fn object(&self, api_version: &str, kind: &str, name: &str, spec: Value) -> Object {
        object(api_version, kind, name).in_namespace(&self.shop.namespace).with("/spec", spec)
    }

    /// A request to restart containers of the Pod `web`.
    fn request(&self, name: &str, containers: &[&str], more: &Value) -> Object {
        let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
        let mut spec = json!({"podName": "web", "containers": containers});
        json_patch::merge(&mut spec, more);
        self.object(BETA, "ContainerRecreateRequest", name, spec)
    }

    /// A job that adds the container `debug` to the Pods labelled `app=web`.
    fn job(&self, name: &str, more: &Value) -> Object {
        let container = json!({"name": "debug", "image": "busybox:1.36", "command": ["true"]});
        let mut spec = json!({
            "selector": {"matchLabels": {"app": "web"}}, "template": {"ephemeralContainers": [container]},
        });
        json_patch::merge(&mut spec, more);
        self.object(ALPHA, "EphemeralJob", name, spec)
    }
}

/// Waits until the object is like that, and gives it.
async fn until(what: &str, object: &Stored, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, async || {
        let (_, object) = object.get().await;
        if is_so(&object) { Ok(object) } else { Err(object) }
    })
    .await
}
