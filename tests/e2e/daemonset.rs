//! What the controller of DaemonSets does on Nodes (docs/behaviour/daemonset.md).

mod history;
mod placing;
mod surge;
mod update;

use kit::ApiServer;
use kit::builders::{Object, workload};
use kit::fake_nodes;
use kit::wait_for;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::fleet::{Fleet, OLD, image, uid};
use crate::support::{Shop, Stored, create, shared};

/// The label by which a test's own Nodes are known: others share the API server.
const SITE: &str = "example.com/site";

/// The DaemonSet that the tests begin with; it is for the Nodes of its namespace alone.
pub fn daemon_set(shop: &Shop, version: &str) -> Object {
    workload(&format!("apps.kruise.io/{version}"), "DaemonSet", "web")
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .container("main", OLD)
        .with("/spec/template/spec/nodeSelector", json!({SITE: shop.namespace}))
}

/// Settings of the rolling update.
pub fn rolling(set: Object, settings: Value) -> Object {
    let mut strategy = json!({"type": "RollingUpdate"});
    strategy["rollingUpdate"] = settings;
    set.with("/spec/updateStrategy", strategy)
}

/// The shared API server, once it asks the program about DaemonSets.
pub async fn asked() -> &'static ApiServer {
    static ASKED: OnceCell<()> = OnceCell::const_new();
    let server = shared().await.0;
    ASKED.get_or_init(async || asks(server).await).await;
    server
}

/// Waits until the API server asks the program about DaemonSets.
pub async fn asks(server: &ApiServer) {
    let shop = Shop::open_on(server, "daemonset-asked").await;
    let set = daemon_set(&shop, "v1beta1").build();
    let unselective = daemon_set(&shop, "v1beta1").with("/spec/selector/matchLabels", json!({})).build();
    wait_for("DaemonSets to be reviewed", async || {
        let (code, answer) = create(&shop.client, unselective.clone(), "?dryRun=All").await;
        if code != 500 {
            return Err(answer);
        }
        match create(&shop.client, set.clone(), "?dryRun=All").await {
            (201, set) if set["spec"]["revisionHistoryLimit"] == 10 => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
}

/// A DaemonSet that was just created, in a cluster with so many Nodes of its own. `refine` completes it.
async fn open(
    server: &ApiServer,
    prefix: &str,
    nodes: usize,
    refine: impl FnOnce(Object) -> Object,
) -> Fleet {
    let shop = Shop::open_on(server, prefix).await;
    let served = shop.namespace.clone();
    open_in(shop, &served, nodes, refine).await
}

/// The same where no kubelet runs the Pods.
async fn open_without_kubelets(
    server: &ApiServer,
    prefix: &str,
    nodes: usize,
    refine: impl FnOnce(Object) -> Object,
) -> Fleet {
    open_in(Shop::open_on(server, prefix).await, "default", nodes, refine).await
}

/// The kubelets run the Pods of one namespace.
async fn open_in(shop: Shop, served: &str, nodes: usize, refine: impl FnOnce(Object) -> Object) -> Fleet {
    let mut options = fake_nodes::Options::nodes(nodes).binding_pods().in_namespace(served);
    for index in 0..nodes {
        options = options.label(index, SITE, &shop.namespace);
    }
    let nodes = fake_nodes::FakeNodes::start(shop.client.clone(), options).await;
    let set = Stored::create(&shop.client, refine(daemon_set(&shop, "v1beta1").in_company())).await;
    Fleet { shop, set, nodes }
}

/// A DaemonSet whose Pods are all available.
pub async fn launch(
    server: &ApiServer,
    prefix: &str,
    nodes: usize,
    refine: impl FnOnce(Object) -> Object,
) -> Fleet {
    let fleet = open(server, prefix, nodes, refine).await;
    complete(&fleet).await;
    fleet
}

/// Waits until each Node has its Pod, at the newest revision and available.
pub async fn complete(fleet: &Fleet) -> Value {
    let nodes = fleet.nodes.names().len();
    let counts =
        json!({"desiredNumberScheduled": nodes, "updatedNumberScheduled": nodes, "numberAvailable": nodes});
    fleet.status("the DaemonSet to be complete", counts).await
}

/// The Node that a Pod is on or for.
fn node(pod: &Value) -> String {
    let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let bound = pod["spec"]["nodeName"].as_str();
    bound.or(pod.pointer(affinity).and_then(Value::as_str)).unwrap().to_owned()
}

/// The positions of the Nodes whose Pod runs this image, ascending.
fn places(fleet: &Fleet, pods: &[Value], wanted: &str) -> Vec<usize> {
    let running = pods.iter().filter(|pod| image(pod) == wanted).map(node);
    let mut places: Vec<usize> =
        running.map(|node| fleet.nodes.names().iter().position(|name| *name == node).unwrap()).collect();
    places.sort_unstable();
    places
}

/// A Node of the test.
fn stored_node(fleet: &Fleet, index: usize) -> Stored {
    let path = format!("/api/v1/nodes/{}", fleet.nodes.names()[index]);
    Stored::existing(&fleet.shop.client, path, Value::Null)
}

/// The Pod on a Node.
async fn pod_on(fleet: &Fleet, index: usize) -> Value {
    let name = &fleet.nodes.names()[index];
    let pods = fleet.pods().await;
    pods.into_iter().find(|pod| node(pod) == *name).unwrap()
}

/// The UIDs of the Pods, sorted.
fn identities(pods: &[Value]) -> Vec<String> {
    let mut uids: Vec<String> = pods.iter().map(uid).collect();
    uids.sort();
    uids
}
