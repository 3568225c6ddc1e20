//! One task per Pod, which writes what [`status`](super::status) decides.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::status::{Delay, Runtime, terminate_after};

/// The address that all fake nodes have; nothing listens there.
pub(super) const HOST_IP: &str = "10.203.0.1";

const RETRY: Duration = Duration::from_millis(200);

/// The keys of all ConfigMaps in sight.
#[derive(Debug, Default)]
pub(super) struct ConfigMaps(HashMap<(String, String), BTreeSet<String>>);

impl ConfigMaps {
    pub(super) fn insert(&mut self, object: &ConfigMap) {
        let data = object.data.iter().flat_map(BTreeMap::keys);
        let binary = object.binary_data.iter().flat_map(BTreeMap::keys);
        self.0.insert(name_of(object), data.chain(binary).cloned().collect());
    }

    pub(super) fn remove(&mut self, object: &ConfigMap) {
        self.0.remove(&name_of(object));
    }

    /// The keys of a ConfigMap, if it exists.
    pub(super) fn keys(&self, namespace: &str, name: &str) -> Option<&BTreeSet<String>> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }
}

fn name_of(object: &ConfigMap) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// What the kubelets of all our nodes share.
pub(super) struct Kubelet {
    client: Client,
    nodes: BTreeMap<String, BTreeMap<String, String>>,
    writes: Semaphore,
    config_maps: watch::Receiver<ConfigMaps>,
    next_node: AtomicUsize,
    next_address: AtomicU32,
}

impl Kubelet {
    pub(super) fn new(
        client: Client,
        nodes: BTreeMap<String, BTreeMap<String, String>>,
        concurrency: usize,
        config_maps: watch::Receiver<ConfigMaps>,
    ) -> Self {
        let writes = Semaphore::new(concurrency);
        Self {
            client,
            nodes,
            writes,
            config_maps,
            next_node: AtomicUsize::new(0),
            next_address: AtomicU32::new(1),
        }
    }

    pub(super) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Binds a Pod to the next node that its node selector allows, or to the one that its affinity names, if there is
    /// one.
    pub(super) async fn bind(self: Arc<Self>, pod: Pod) {
        let spec = pod.spec.as_ref();
        let gated =
            spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
        let selector = spec.and_then(|spec| spec.node_selector.clone()).unwrap_or_default();
        let assigned = assigned_node(&pod);
        let fits = |name: &String, labels: &BTreeMap<String, String>| {
            selector.iter().all(|(key, value)| labels.get(key) == Some(value))
                && assigned.as_ref().is_none_or(|node| node == name)
        };
        let nodes: Vec<&String> =
            self.nodes.iter().filter(|(name, labels)| fits(name, labels)).map(|(name, _)| name).collect();
        if gated || nodes.is_empty() || pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        let node = nodes[self.next_node.fetch_add(1, Ordering::Relaxed) % nodes.len()];
        let (name, body) = (pod.name_any(), super::binding(&pod, node));
        loop {
            let bound = {
                let _permit = self.writes.acquire().await.expect("the semaphore is never closed");
                self.pods(&pod)
                    .create_subresource::<Value, Value>("binding", &name, &Default::default(), &body)
                    .await
            };
            // Bound by another event of the same Pod, or gone: both are fine.
            if ignore_gone(bound).is_ok() {
                return;
            }
            sleep(RETRY).await;
        }
    }

    /// Plays one Pod until it is gone.
    pub(super) async fn play(self: Arc<Self>, mut pods: watch::Receiver<Arc<Pod>>) {
        let mut config_maps = self.config_maps.clone();
        let mut runtime = Runtime::new(self.next_address.fetch_add(1, Ordering::Relaxed));
        let mut ending: Option<Instant> = None;
        let mut written = 0;
        loop {
            let pod = Arc::clone(&pods.borrow_and_update());
            if version(&pod) < written {
                // The event of its own write is still to come.
                if pods.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let now = Instant::now();
            let mut wake = None;
            let mut blocked = false;
            if pod.metadata.deletion_timestamp.is_some() {
                let since = *ending.get_or_insert(now);
                match terminate_after(&pod) {
                    Delay::Never => {}
                    Delay::After(delay) if now < since + delay => wake = Some(since + delay),
                    Delay::After(_) => match self.finish(&pod, &mut runtime).await {
                        Ok(()) => return,
                        Err(_) => wake = Some(now + RETRY),
                    },
                }
            } else {
                let step = runtime.advance(&pod, &config_maps.borrow_and_update(), now);
                wake = step.wake;
                blocked = step.blocked;
                if let Some(patch) = step.patch {
                    match self.write_status(&pod, patch).await {
                        Ok(version) => written = version,
                        Err(_) => wake = Some(now + RETRY),
                    }
                }
            }
            tokio::select! {
                changed = pods.changed() => if changed.is_err() { return },
                () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => {}
                _ = config_maps.changed(), if blocked => {}
            }
        }
    }

    /// Ends a deleted Pod: reports its containers' end if somebody holds the object back by a
    /// finalizer, then lets the API server remove it.
    async fn finish(&self, pod: &Pod, runtime: &mut Runtime) -> Result<(), kube::Error> {
        if !pod.finalizers().is_empty() {
            self.write_status(pod, runtime.terminated(pod)).await?;
        }
        let _permit = self.writes.acquire().await.expect("the semaphore is never closed");
        let deleted = self.pods(pod).delete(&pod.name_any(), &super::force_deletion(pod.uid())).await;
        ignore_gone(deleted.map(drop))
    }

    /// Gives the version that this leaves; 0 where the Pod is gone.
    async fn write_status(&self, pod: &Pod, status: Value) -> Result<u64, kube::Error> {
        let _permit = self.writes.acquire().await.expect("the semaphore is never closed");
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        let written = self.pods(pod).patch_status(&pod.name_any(), &PatchParams::default(), &patch).await;
        ignore_gone(written.map(|pod| version(&pod)))
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }
}

/// A Pod that is gone (404), or replaced by another of its name (409), needs no more writes.
fn ignore_gone<T: Default>(result: Result<T, kube::Error>) -> Result<T, kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(T::default()),
        other => other,
    }
}

/// Later versions of a Pod are greater.
fn version(pod: &Pod) -> u64 {
    pod.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The node that the Pod's required affinity names, as that of a Pod of a DaemonSet does.
fn assigned_node(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.first()?.match_fields.as_ref()?;
    let field = fields.iter().find(|field| field.key == "metadata.name")?;
    field.values.as_ref()?.first().cloned()
}
