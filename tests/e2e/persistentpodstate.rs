//! PersistentPodStates on a real API server with Kubernetes' controllers and scheduler
//! (docs/behaviour/persistentpodstate.md#acceptance-scenarios).

mod generating;
mod listed;
mod objects;
mod remembering;
mod steering;

use kit::builders::{Object, object, pod, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::objects::is_ready;
use kit::{ApiServer, Shared, scheduling, wait_for};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::product::{self, NAMESPACE, Product};
use crate::support::{Shop, Stored, call, create, direct_of, in_use, message, patched, pod_review, review};
use crate::workloadspread::define;

const INJECTED: &str = "kruise.io/injected-persistent-pod-state";
const PREFERRED: &str = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
const NATIVE: (&str, &str) = ("apps/v1", "StatefulSet");
const ADVANCED: (&str, &str) = ("apps.kruise.io/v1beta1", "StatefulSet");
/// Nodes of a test, each in a zone of its own.
const ZONES: [&str; 3] = ["a", "b", "c"];

/// A kind that is listed beside StatefulSets.
const WHITE_LIST: &str = r#"{"workloads":[{"Group":"kubeflow.org","version":"v1","Kind":"Database"}]}"#;

/// The API server of these tests.
struct Site {
    server: ApiServer,
    product: Product,
}

async fn site() -> Arc<Site> {
    static SITE: Shared<Site> = Shared::new();
    SITE.get(async || {
        let options = kit::Options::default().with_controller_manager().with_scheduler();
        let server = product::server(options).await;
        define(&server, "Database").await;
        let list = json!({"PPS_Watch_Custom_Workload_WhiteList": WHITE_LIST});
        let map =
            object("v1", "ConfigMap", "kruise-configuration").in_namespace(NAMESPACE).with("/data", list);
        Stored::create(&server.client(), map).await;
        let product = Product::serve(&server, product::Options::default()).await;
        in_use(&server).await;
        Site { server, product }
    })
    .await
}

/// A namespace with a workload `web`, its PersistentPodState `pps`, and a node in each of the zones.
struct Field {
    shop: Shop,
    nodes: FakeNodes,
}

impl Field {
    async fn open(prefix: &str) -> Self {
        let shop = Shop::open_on(&site().await.server, prefix).await;
        // Nodes of this test alone: Pods choose them by a label of its namespace.
        let options = fake_nodes::Options::nodes(ZONES.len()).in_namespace(&shop.namespace);
        let options = ZONES.into_iter().enumerate().fold(options, |options, (index, zone)| {
            options.label(index, "zone", zone).label(index, "field", &shop.namespace)
        });
        let nodes = FakeNodes::start(shop.client.clone(), options).await;
        Self { shop, nodes }
    }

    /// The StatefulSet `web`, whose Pods run on the nodes of this test.
    fn web(&self, (api_version, kind): (&str, &str)) -> Object {
        workload(api_version, kind, "web")
            .in_namespace(&self.shop.namespace)
            .matching("app", "web")
            .container("main", "nginx:1.25")
            .with("/spec/serviceName", "web")
            .with("/spec/podManagementPolicy", "Parallel")
            .with("/spec/template/spec/nodeSelector", json!({"field": self.shop.namespace}))
            .with("/spec/template/spec/terminationGracePeriodSeconds", 1)
    }

    /// A Pod of a workload that no controller makes.
    fn pod_of(&self, owner: &Value, name: &str) -> Object {
        pod(name)
            .in_namespace(&self.shop.namespace)
            .label("app", "web")
            .container("main", "nginx:1.25")
            .controlled_by(owner)
            .with("/spec/nodeSelector", json!({"field": self.shop.namespace}))
            .with("/spec/terminationGracePeriodSeconds", 1)
    }

    /// A PersistentPodState `pps` of the workload `web`, without any topology yet.
    fn bare(&self, (api_version, kind): (&str, &str)) -> Object {
        object("apps.kruise.io/v1beta1", "PersistentPodState", "pps")
            .in_namespace(&self.shop.namespace)
            .with("/spec/targetRef", json!({"apiVersion": api_version, "kind": kind, "name": "web"}))
    }

    /// A PersistentPodState `pps` of the workload `web`: its Pods must keep their zone and should keep their node.
    fn state(&self, target: (&str, &str)) -> Object {
        let wishes = json!([{"weight": 30, "preference": {"keys": ["kubernetes.io/hostname"]}}]);
        self.bare(target)
            .with("/spec/requiredPersistentTopology/keys", json!(["zone"]))
            .with("/spec/preferredPersistentTopology", wishes)
    }

    async fn create(&self, manifest: Object) -> Stored {
        Stored::create(&self.shop.client, manifest).await
    }

    fn existing(&self, group: &str, plural: &str, name: &str) -> Stored {
        let path = format!("/{group}/namespaces/{}/{plural}/{name}", self.shop.namespace);
        Stored::existing(&self.shop.client, path, Value::Null)
    }

    /// A Pod by name.
    fn pod(&self, name: &str) -> Stored {
        self.existing("api/v1", "pods", name)
    }

    /// A PersistentPodState by name.
    fn stored_state(&self, name: &str) -> Stored {
        self.existing("apis/apps.kruise.io/v1beta1", "persistentpodstates", name)
    }

    /// Waits until the newest spec was reconciled and these Pods are remembered, each with the node that it runs on.
    async fn remembered(&self, state: &Stored, pods: &[&str]) -> Value {
        wait_for(&format!("{pods:?} to be remembered"), async || {
            let state = state.get().await.1;
            let (status, names) = (state["status"].clone(), names(&state));
            if names != pods || status["observedGeneration"] != state["metadata"]["generation"] {
                return Err(status);
            }
            Ok(status)
        })
        .await
    }

    /// Waits until a Pod is ready.
    async fn ready(&self, name: &str) -> Value {
        wait_for(&format!("{name} to be ready"), async || match self.pod(name).get().await {
            (200, pod) if is_ready(&pod) => Ok(pod),
            (_, answer) => Err(answer["status"].clone()),
        })
        .await
    }

    /// Waits until admission leads a new Pod of this name to where the last one ran.
    async fn known(&self, owner: &Stored, name: &str) {
        let site = site().await;
        let Site { server, product } = &*site;
        let program = direct_of(server, product.port).await;
        let pod = self.pod_of(&owner.object, name).build();
        wait_for(&format!("{name} to be led back"), async || {
            let response = review(&program, &pod_review(&self.shop.namespace, "CREATE", "", &pod)).await;
            if response["patch"].is_null() {
                return Err(response);
            }
            let after = patched(&pod, &response);
            if after["metadata"]["annotations"][INJECTED].is_null() { Err(after) } else { Ok(()) }
        })
        .await;
    }

    /// Deletes a Pod and waits for the next one of its name.
    async fn recreated(&self, name: &str) -> Value {
        let pod = self.pod(name);
        let before = pod.get().await.1["metadata"]["uid"].clone();
        pod.deleted().await;
        wait_for(&format!("the next {name}"), async || match pod.get().await {
            (200, pod) if pod["metadata"]["uid"] != before => Ok(pod),
            (_, answer) => Err(answer),
        })
        .await
    }

    /// The node that a Pod runs on takes no more Pods, and the scheduler knows.
    async fn cordon(&self, on: &Value) {
        let node = on["spec"]["nodeName"].as_str().unwrap();
        scheduling::cordon(&self.shop.client, &self.shop.namespace, node).await;
    }

    /// The zone of a node of this test.
    fn zone(&self, node: &Value) -> &'static str {
        let index = self.nodes.names().iter().position(|name| *node == **name).unwrap();
        ZONES[index]
    }

    /// Waits for an Event about the workload `web` with this reason.
    async fn event(&self, reason: &str) -> String {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.shop.namespace);
        wait_for(&format!("the Event {reason}"), async || {
            let list = call(&self.shop.client, "GET", &path, &Value::Null).await.1;
            let events = list["items"].as_array().unwrap();
            let found =
                events.iter().find(|event| event["regarding"]["name"] == "web" && event["reason"] == reason);
            found.map(|event| event["note"].as_str().unwrap().to_owned()).ok_or(events.len())
        })
        .await
    }
}

/// The Pods that a PersistentPodState remembers.
fn names(state: &Value) -> Vec<&str> {
    let records = state["status"]["podStates"].as_object();
    records.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// The PersistentPodState by which a Pod was led; empty for none.
fn injected(pod: &Value) -> &str {
    pod["metadata"]["annotations"][INJECTED].as_str().unwrap_or_default()
}

/// A wish for a node by its name.
fn hostname(weight: i32, node: &Value) -> Value {
    let expression = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    json!({"weight": weight, "preference": {"matchExpressions": [expression]}})
}
