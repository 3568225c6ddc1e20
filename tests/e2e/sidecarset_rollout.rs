//! What the controller of SidecarSets does to Pods, to its records and to its status
//! (docs/behaviour/sidecarset.md#acceptance-scenarios).

mod hot;
mod revisions;
mod status;
mod update;

use kit::builders::Object;
use kit::fake_nodes::{self, FakeNodes};
use kit::objects::{condition, is_ready};
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};

use crate::chronicle::Chronicle;
use crate::support::{Shop, Stored, call, named, shared};

const HASH: &str = "kruise.io/sidecarset-hash";
const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
const UPGRADABLE: &str = "SidecarSetUpgradable";
const OLD: &str = "busybox:1.35";
pub const NEW: &str = "busybox:1.36";

/// A SidecarSet with the Pods that have its sidecar, on nodes of their own.
pub struct Fleet {
    pub shop: Shop,
    set: Stored,
    _nodes: FakeNodes,
}

impl Fleet {
    /// Pods `web-0` and so on with the sidecar `log` at [`OLD`], all ready. `refine` completes the
    /// SidecarSet.
    async fn launch(prefix: &str, pods: usize, refine: impl FnOnce(Object) -> Object) -> Self {
        Self::launch_on(shared().await.0, prefix, pods, refine).await
    }

    /// As [`launch`](Self::launch), on another API server.
    pub async fn launch_on(
        server: &ApiServer,
        prefix: &str,
        pods: usize,
        refine: impl FnOnce(Object) -> Object,
    ) -> Self {
        let fleet = Self::open_on(server, prefix, refine).await;
        for number in 0..pods {
            fleet.shop.admit(fleet.shop.pod(&format!("web-{number}")).in_company()).await;
        }
        fleet.wait_status("all Pods to be ready", json!({"readyPods": pods, "updatedPods": pods})).await;
        fleet
    }

    /// As [`launch`](Self::launch), without Pods.
    async fn open(prefix: &str, refine: impl FnOnce(Object) -> Object) -> Self {
        Self::open_on(shared().await.0, prefix, refine).await
    }

    async fn open_on(server: &ApiServer, prefix: &str, refine: impl FnOnce(Object) -> Object) -> Self {
        let shop = Shop::open_on(server, prefix).await;
        let options = fake_nodes::Options::nodes(2).in_namespace(&shop.namespace).binding_pods();
        let nodes = FakeNodes::start(shop.client.clone(), options).await;
        let set = refine(sidecar(shop.sidecar_set("log"), OLD));
        let set = Stored::create(&shop.client, set).await;
        shop.settle().await;
        Self { shop, set, _nodes: nodes }
    }

    /// The SidecarSet's name.
    fn name(&self) -> String {
        self.shop.name("log")
    }

    /// Follows what happens to the Pods from now on.
    async fn chronicle(&self) -> Chronicle {
        Chronicle::begin(&self.shop.client, &self.shop.namespace).await
    }

    /// Changes the sidecar's image, and more of `spec` where `also` says so.
    pub async fn roll(&self, image: &str, also: Value) {
        let mut containers = self.set.get().await.1["spec"]["containers"].clone();
        containers[0]["image"] = json!(image);
        let mut spec = also;
        spec["containers"] = containers;
        self.set.patch(&json!({"spec": spec})).await;
    }

    /// The status, once the newest spec was reconciled and these fields hold.
    pub async fn wait_status(&self, what: &str, fields: Value) -> Value {
        wait_for(what, async || {
            let set = self.set.get().await.1;
            let status = &set["status"];
            let observed = status["observedGeneration"] == set["metadata"]["generation"];
            let holds = fields.as_object().unwrap().iter().all(|(key, value)| status[key] == *value);
            if observed && holds { Ok(status.clone()) } else { Err(status.clone()) }
        })
        .await
    }

    /// A Pod by name.
    fn pod(&self, name: &str) -> Stored {
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.shop.namespace);
        Stored::existing(&self.shop.client, path, Value::Null)
    }

    /// All Pods.
    async fn pods(&self) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{}/pods", self.shop.namespace);
        let (code, list) = call(&self.shop.client, "GET", &path, &Value::Null).await;
        assert_eq!(code, 200, "{list:#}");
        list["items"].as_array().unwrap().clone()
    }

    /// Names of the Pods whose sidecar is to have this image, sorted.
    async fn with_image(&self, image: &str) -> Vec<String> {
        let pods = self.pods().await.into_iter();
        let mut names: Vec<String> =
            pods.filter(|pod| image_of(pod, "log") == image).map(|pod| name(&pod)).collect();
        names.sort();
        names
    }

    /// Waits for an Event with this reason about an object of this name, and gives its message.
    async fn event(&self, namespace: &str, object: &str, reason: &str) -> String {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        wait_for(&format!("the Event {reason}"), async || {
            let list = call(&self.shop.client, "GET", &path, &Value::Null).await.1;
            let events = list["items"].as_array().unwrap();
            let found =
                events.iter().find(|event| event["regarding"]["name"] == object && event["reason"] == reason);
            found.map(|event| event["note"].as_str().unwrap().to_owned()).ok_or(events.len())
        })
        .await
    }
}

/// Adds the sidecar `log`.
fn sidecar(set: Object, image: &str) -> Object {
    set.container("log", image).having("podInjectPolicy", "AfterAppContainer")
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn image_of<'p>(pod: &'p Value, container: &str) -> &'p str {
    named(&pod["spec"]["containers"], container)["image"].as_str().unwrap()
}

fn restarts(pod: &Value, container: &str) -> i64 {
    named(&pod["status"]["containerStatuses"], container)["restartCount"].as_i64().unwrap()
}

/// The entry of a SidecarSet in an annotation of records.
fn record(pod: &Value, annotation: &str, set: &str) -> Value {
    let text = crate::support::annotation(pod, annotation);
    serde_json::from_str::<Value>(text).unwrap()[set].clone()
}
