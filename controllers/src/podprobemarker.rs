//! Controller `podprobemarker-controller`: the finalizers and counts of PodProbeMarkers, and the marks of Pods on nodes
//! without an agent (docs/behaviour/probes.md#the-controller-of-podprobemarkers). What to do is decided by
//! `kinds::podprobemarker`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::features::Feature;
use api::kinds::nodepodprobe::NodePodProbe;
use api::kinds::podprobemarker::KIND;
use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::podprobemarker::marker::Marker;
use kinds::podprobemarker::trigger::{self, BURST, markers_of};
use kube::Client;
use pod::observed::ObservedPod;
use tokio::sync::mpsc::UnboundedSender;

use crate::nodepodprobe::node;
use crate::probes::{MARKERS, Probes};
use crate::workload::builder::{Builder, Next, QUICK_RETRY, QueueSettings, Reconciler, touched};
use crate::workload::carry_out::{Carried, carry_out};
use crate::workload::limiter::Limiter;
use crate::workload::store::{Change, Kept};
use crate::workload::stores::Stores;
use crate::{Context, ReconcileError};

const NAME: &str = "podprobemarker-controller";

struct Controller {
    client: Client,
    probes: Arc<Probes>,
    stores: Arc<Stores>,
    /// Pods on nodes without an agent are marked.
    serverless: bool,
    /// Where the names of Nodes go whose NodePodProbes have to be planned anew.
    nodes: UnboundedSender<Box<str>>,
    /// The state of each marker for which all its nodes were woken: its UID and its generation.
    woken: Mutex<HashMap<Key, (String, Option<i64>)>>,
    limiter: Limiter<Key>,
}

/// Reconciles PodProbeMarkers; the names of their nodes go to `nodes`. Never returns.
pub(crate) async fn run(
    context: Context,
    probes: Arc<Probes>,
    stores: Arc<Stores>,
    nodes: UnboundedSender<Box<str>>,
) {
    let settings = QueueSettings { name: NAME, workers: context.settings.podprobemarker_workers };
    Builder::new(&context, settings, "Mark", |_| Controller {
        client: context.client.clone(),
        probes: probes.clone(),
        stores: stores.clone(),
        serverless: context.settings.gates.enabled(Feature::EnablePodProbeMarkerOnServerless),
        nodes,
        woken: Mutex::default(),
        limiter: Limiter::default(),
    })
    .woken_by(probes.markers.subscribe(), |all, change| {
        let concerned = trigger::of_marker(change.old.as_deref(), change.new.as_deref());
        touched(all, change).filter(|_| concerned)
    })
    .woken_by(probes.nodes.subscribe(), Controller::of_node)
    .woken_by(stores.pods.subscribe(), Controller::of_pod)
    .after(|all| async move { all.probes.complete(&all.stores, &all.client).await })
    .run()
    .await;
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let pods = &self.stores.pods;
        let active = || self.probes.markers.get(key).filter(|marker| marker.is_active());
        if active().is_none() {
            return self.end(key).await;
        }
        pods.want(KIND, key);
        pods.complete(&self.client, &key.0).await?;
        let Some(marker) = active() else { return self.end(key).await };
        let mut matching = pods.of_namespace(&key.0);
        matching.retain(|pod| marker.includes(pod));
        self.wake(&marker, matching.iter().map(|pod| &*pod.spec.node_name));
        let Some(marker) = self.write(&marker, "", marker.with_finalizer(true)).await? else {
            return Ok(Next::After(QUICK_RETRY));
        };
        let all_marked = self.mark(&marker, &matching).await?;
        let status = marker.with_status(matching.len());
        if status.is_some()
            && let Some(wait) = self.limiter.pace(key, false)
        {
            return Ok(Next::After(wait));
        }
        let is_written = self.write(&marker, "status", status).await?.is_some();
        Ok(if all_marked && is_written { Next::Done } else { Next::After(QUICK_RETRY) })
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.probes.markers.get(key).map(|marker| marker.reference(&MARKERS))
    }
}

impl Controller {
    /// The markers that are being deleted and wait for this NodePodProbe.
    fn of_node(&self, change: &Change<NodePodProbe>) -> Vec<(Key, Duration)> {
        let words = change.old.iter().flat_map(|old| markers_of(old));
        let keys = words.filter_map(|word| {
            let (namespace, name) = word.split_once('/')?;
            Some((namespace.to_owned(), name.to_owned()))
        });
        let ends = |key: &Key| self.probes.markers.get(key).is_some_and(|marker| !marker.is_active());
        keys.filter(ends).map(|key| (key, BURST)).collect()
    }

    /// The markers that a Pod concerns that has changed.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(namespace) = old.or(new).map(Kept::namespace) else { return Vec::new() };
        let markers = self.probes.of_namespace(namespace);
        let concerned =
            markers.iter().filter(|marker| trigger::concerns(marker, (old, new), self.serverless));
        concerned.map(|marker| (marker.key(), BURST)).collect()
    }

    /// Has the NodePodProbes planned anew of these nodes and of those that have probes of the marker, once for each
    /// state of its spec.
    fn wake<'a>(&self, marker: &Marker, nodes: impl Iterator<Item = &'a str>) {
        let metadata = &marker.object.metadata;
        let state = (metadata.uid.clone(), metadata.generation);
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if woken.insert(marker.key(), state.clone()) != Some(state) {
            self.send(&marker.word(), nodes);
        }
    }

    fn send<'a>(&self, marker: &str, nodes: impl Iterator<Item = &'a str>) {
        let having = self.probes.nodes.group(&marker.into());
        let having = having.iter().map(|node| Box::from(node.name()));
        let all: BTreeSet<Box<str>> = having.chain(nodes.map(Into::into)).collect();
        for node in all {
            // The queue of nodes lives as long as that of markers.
            drop(self.nodes.send(node));
        }
    }

    /// Takes the finalizer off a marker that is being deleted, once its probes are in no NodePodProbe any more: the
    /// last one that loses them leads here again.
    async fn end(&self, key: &Key) -> Result<Next, ReconcileError> {
        self.stores.pods.leave(KIND, key);
        self.limiter.forget(key);
        let Some(marker) = self.probes.markers.get(key) else {
            self.woken.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            self.send(&format!("{}/{}", key.0, key.1), std::iter::empty());
            return Ok(Next::Done);
        };
        self.wake(&marker, std::iter::empty());
        if !self.probes.nodes.group(&marker.word().into()).is_empty() {
            return Ok(Next::Done);
        }
        let patch = marker.with_finalizer(false);
        let is_written = self.write(&marker, "", patch).await?.is_some();
        Ok(if is_written { Next::Done } else { Next::After(QUICK_RETRY) })
    }

    /// Writes on Pods without an agent what their conditions ask for; false where one was in another state. One that
    /// can't be written to stops no other.
    async fn mark(&self, marker: &Marker, pods: &[Arc<ObservedPod>]) -> Result<bool, ReconcileError> {
        let mut outcome = Ok(true);
        for pod in pods.iter().filter(|_| self.serverless) {
            let node = node(&self.stores.nodes, &pod.spec.node_name);
            if !node.is_some_and(|node| node.is_virtual) {
                continue;
            }
            let marks = [marker.marks(pod)];
            let carried = carry_out(&self.client, &self.stores.pods, pod, &marks).await;
            let marked = carried.map(|carried| matches!(carried, Carried::Written(_)));
            outcome = match (outcome, marked) {
                (Ok(all), Ok(this)) => Ok(all && this),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        outcome
    }

    /// Patches a marker; gives it as it is now, `None` where it was in another state.
    async fn write(
        &self,
        marker: &Arc<Marker>,
        part: &str,
        patch: Option<String>,
    ) -> Result<Option<Arc<Marker>>, ReconcileError> {
        let Some(patch) = patch else { return Ok(Some(marker.clone())) };
        let path = MARKERS.namespaced(marker.namespace()).name(marker.name()).subresource(part);
        let answer = write::patch(&self.client, &path, PatchKind::Merge, patch).await;
        if !self.probes.markers.take_in(KIND, answer)? {
            return Ok(None);
        }
        Ok(Some(self.probes.markers.get(&marker.key()).unwrap_or_else(|| marker.clone())))
    }
}
