//! Nodes without machines: Node objects whose kubelet is played by this program.
//!
//! Pods bound to them start, become ready, restart containers whose image changes and go away,
//! as the status fields of the API server say. One watch and a bounded number of writes at a
//! time serve thousands of Pods.
//!
//! A Pod goes wrong on purpose by annotations, which may change while it runs; `NAME` is that of
//! a container, lists are separated by commas:
//!
//! | annotation | effect |
//! |---|---|
//! | [`START_AFTER`] | containers need this many milliseconds to start |
//! | [`READY_AFTER`] | and this many more to become ready; `never` is possible |
//! | [`CRASH`] | `NAME,…`: these containers crash in a loop |
//! | [`EXIT`] | `NAME=CODE,…`: these containers end with that exit code once ready (Jobs) |
//! | [`RESIZE_AFTER`] | running containers need this many milliseconds to get other resources; `never` is possible |
//! | [`TERMINATE_AFTER`] | a deleted Pod needs this many milliseconds to end; `never` is possible |
//!
//! An image whose tag is `missing` can't be pulled. A container waits for the ConfigMap keys that
//! its environment refers to, as with a real kubelet.

mod kubelet;
mod status;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::binaries;
use kubelet::{ConfigMaps, Kubelet};
use status::Runtime;

/// Milliseconds that containers need to start.
pub const START_AFTER: &str = "fake-node/start-after";
/// Milliseconds that started containers need to become ready, or `never`.
pub const READY_AFTER: &str = "fake-node/ready-after";
/// Containers that crash in a loop.
pub const CRASH: &str = "fake-node/crash";
/// Containers that end, with their exit codes.
pub const EXIT: &str = "fake-node/exit";
/// Milliseconds that a running container needs to get other resources, or `never`.
pub const RESIZE_AFTER: &str = "fake-node/resize-after";
/// Milliseconds that a deleted Pod needs to end, or `never`.
pub const TERMINATE_AFTER: &str = "fake-node/terminate-after";

/// Renewal of a node's Lease: well below the 40 s after which the node would count as dead.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What [`FakeNodes`] are started with.
#[derive(Debug, Clone)]
pub struct Options {
    labels: Vec<BTreeMap<String, String>>,
    namespace: Option<String>,
    bind: bool,
    concurrency: usize,
}

impl Options {
    /// That many nodes, for the Pods of all namespaces.
    pub fn nodes(count: usize) -> Self {
        Self { labels: vec![BTreeMap::new(); count], namespace: None, bind: false, concurrency: 32 }
    }

    /// Gives the node of that index a label, such as a zone.
    #[must_use]
    pub fn label(mut self, index: usize, key: &str, value: &str) -> Self {
        self.labels[index].insert(key.to_owned(), value.to_owned());
        self
    }

    /// Only for the Pods of one namespace. Tests that share an API server need it.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Also binds Pods that have no node, in turn, to the nodes that their `nodeSelector` allows, or to the one that
    /// their affinity names: for an API server without a scheduler.
    #[must_use]
    pub fn binding_pods(mut self) -> Self {
        self.bind = true;
        self
    }

    /// Makes at most that many writes at a time (32 by default).
    #[must_use]
    pub fn concurrency(mut self, writes: usize) -> Self {
        self.concurrency = writes;
        self
    }
}

/// Running fake nodes; they end when this is dropped (the Node objects stay).
#[derive(Debug)]
pub struct FakeNodes {
    names: Vec<String>,
    _tasks: JoinSet<()>,
}

impl FakeNodes {
    /// Registers the nodes and plays their kubelets, on the runtime of the caller.
    ///
    /// # Panics
    /// When a node can't be registered.
    pub async fn start(client: Client, options: Options) -> Self {
        let mut nodes = BTreeMap::new();
        for labels in &options.labels {
            let name = unique_name();
            let labels = register(&client, &name, labels).await;
            nodes.insert(name, labels);
        }
        let names: Vec<String> = nodes.keys().cloned().collect();
        let (config_maps, readers) = watch::channel(ConfigMaps::default());
        let kubelet = Arc::new(Kubelet::new(client.clone(), nodes, options.concurrency, readers));
        let mut tasks = JoinSet::new();
        tasks.spawn(heartbeat(client.clone(), names.clone()));
        tasks.spawn(follow_config_maps(scoped(&client, &options), config_maps));
        tasks.spawn(follow_pods(scoped(&client, &options), kubelet, options.bind));
        Self { names, _tasks: tasks }
    }

    /// The names of the nodes, unique in the cluster.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = status::now().as_millisecond();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("fake-{:x}-{:x}-{number:04}", std::process::id(), start % 0x1_0000_0000)
}

fn scoped<K>(client: &Client, options: &Options) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
{
    match &options.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Makes the Node and returns all its labels.
async fn register(
    client: &Client,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut labels = labels.clone();
    labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
    labels.insert("kubernetes.io/arch".to_owned(), "amd64".to_owned());
    let capacity = json!({"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": "20000"});
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "KubeletReady", "message": "a fake node"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": capacity, "allocatable": capacity,
            "conditions": [condition("Ready", "True"), condition("MemoryPressure", "False")],
            "addresses": [{"type": "InternalIP", "address": kubelet::HOST_IP}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": binaries::kubernetes_version(),
                "bootID": "", "containerRuntimeVersion": "fake://1", "kernelVersion": "6", "kubeProxyVersion": "",
                "machineID": name, "osImage": "fake", "systemUUID": name,
            },
        },
    });
    let nodes = Api::<Node>::all(client.clone());
    let created = serde_json::from_value(node).expect("a valid Node");
    nodes.create(&Default::default(), &created).await.expect("a Node can be created");
    // Admission taints new nodes as not ready; the controller that lifts it may not be running.
    let lifted = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(name, &PatchParams::default(), &lifted).await.expect("a Node can be patched");
    labels
}

/// Keeps the nodes alive in the eyes of the controller manager.
async fn heartbeat(client: Client, names: Vec<String>) {
    let leases = Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(client, "kube-node-lease");
    let mut ticks = tokio::time::interval(HEARTBEAT);
    loop {
        ticks.tick().await;
        let now = status::now();
        futures::stream::iter(&names)
            .for_each_concurrent(16, |name| {
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": name},
                    "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format!("{now:.6}")},
                });
                let leases = &leases;
                // A beat that fails is made good by the next one.
                async move { drop(leases.patch(name, &PatchParams::apply("fake-node").force(), &Patch::Apply(lease)).await) }
            })
            .await;
    }
}

async fn follow_config_maps(api: Api<ConfigMap>, config_maps: watch::Sender<ConfigMaps>) {
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                config_maps.send_modify(|known| known.insert(&object));
            }
            Ok(watcher::Event::Delete(object)) => config_maps.send_modify(|known| known.remove(&object)),
            _ => {}
        }
    }
}

/// What a kubelet would report of a Pod all of whose containers start at once: a strategic merge patch of
/// its status, without fields where the status says all that already. The annotations of this module count.
/// For tests that play the kubelet by hand.
///
/// # Panics
/// When this is not a Pod.
pub fn reported(pod: &Value) -> Value {
    let pod: Pod = serde_json::from_value(pod.clone()).expect("a Pod");
    let step = Runtime::new(1).advance(&pod, &ConfigMaps::default(), Instant::now());
    step.patch.unwrap_or_else(|| json!({}))
}

/// Gives each Pod of our nodes a task that plays it, and keeps the task informed.
async fn follow_pods(api: Api<Pod>, kubelet: Arc<Kubelet>, bind: bool) {
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut running: HashMap<String, watch::Sender<Arc<Pod>>> = HashMap::new();
    let mut tasks = JoinSet::new();
    let mut listed: Option<HashMap<String, watch::Sender<Arc<Pod>>>> = None;
    while let Some(event) = events.next().await {
        let pod = match event {
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => pod,
            Ok(watcher::Event::Delete(pod)) => {
                running.remove(&pod.uid().unwrap_or_default());
                continue;
            }
            Ok(watcher::Event::Init) => {
                listed = Some(HashMap::new());
                continue;
            }
            Ok(watcher::Event::InitDone) => {
                // Deleted while the watch was away: what the list didn't contain.
                running = listed.take().unwrap_or(running);
                continue;
            }
            Err(_) => continue,
        };
        let uid = pod.uid().unwrap_or_default();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        match (node, running.get(&uid)) {
            (Some(_), Some(known)) => drop(known.send_replace(Arc::new(pod))),
            (Some(node), None) if kubelet.has_node(&node) => {
                let (sender, receiver) = watch::channel(Arc::new(pod));
                tasks.spawn(Arc::clone(&kubelet).play(receiver));
                running.insert(uid.clone(), sender);
            }
            (None, _) if bind => drop(tasks.spawn(Arc::clone(&kubelet).bind(pod))),
            _ => continue,
        }
        if let (Some(listed), Some(sender)) = (&mut listed, running.get(&uid)) {
            listed.insert(uid, sender.clone());
        }
        while tasks.try_join_next().is_some() {}
    }
}

/// Ends a Pod at once in the API server, as the kubelet does after its containers ended.
fn force_deletion(uid: Option<String>) -> DeleteParams {
    let preconditions = kube::api::Preconditions { uid, resource_version: None };
    DeleteParams { grace_period_seconds: Some(0), preconditions: Some(preconditions), ..Default::default() }
}

/// The body of a request that binds a Pod to a node.
fn binding(pod: &Pod, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": pod.name_any(), "namespace": pod.namespace(), "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}
