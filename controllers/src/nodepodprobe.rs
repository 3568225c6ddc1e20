//! Controller `nodepodprobe-controller`: writes the probes of each node for its agent, and writes their results
//! onto the Pods (docs/behaviour/probes.md#the-controller-of-nodepodprobes). What to do is decided by
//! `kinds::podprobemarker`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::features::Feature;
use api::kinds::nodepodprobe::{API_VERSION, KIND, NodePodProbe};
use cluster::events::about;
use cluster::resource::PODS;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::podprobemarker::liveness::has_moved;
use kinds::podprobemarker::marker::Marker;
use kinds::podprobemarker::node::{Node, Step, step};
use kinds::podprobemarker::probed::{Probed, probed};
use kinds::podprobemarker::restarts::{Restart, restarts};
use kinds::podprobemarker::results::{Results, results};
use kinds::podprobemarker::trigger::{self, BURST};
use kube::Client;
use pod::node_fit::is_virtual;
use pod::observed::ObservedPod;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::probes::{NODE_PROBES, Probes};
use crate::workload::builder::{Builder, Next, QUICK_RETRY, QueueSettings, Reconciler};
use crate::workload::carry_out::{Carried, carry_out};
use crate::workload::nodes::Nodes;
use crate::workload::recreate::recreate;
use crate::workload::store::{Change, Kept, key};
use crate::workload::stores::Stores;
use crate::{Context, ReconcileError};
use cluster::event_sender::EventSender;

const NAME: &str = "nodepodprobe-controller";
/// Pods of one node that are written to at a time.
const CONCURRENCY: usize = 8;

struct Controller {
    client: Client,
    probes: Arc<Probes>,
    stores: Arc<Stores>,
    /// The agents run liveness probes.
    liveness: bool,
    event_sender: EventSender,
}

/// The names of Nodes to reconcile: both ends of their channel.
pub(crate) type Names = (UnboundedSender<Box<str>>, UnboundedReceiver<Box<str>>);

/// Reconciles NodePodProbes. Never returns.
pub(crate) async fn run(context: Context, probes: Arc<Probes>, stores: Arc<Stores>, names: Names) {
    let settings = QueueSettings { name: NAME, workers: context.settings.nodepodprobe_workers };
    Builder::new(&context, settings, "Probe", |event_sender| Controller {
        client: context.client.clone(),
        probes: probes.clone(),
        stores: stores.clone(),
        liveness: context.settings.gates.enabled(Feature::EnhancedLivenessProbe),
        event_sender,
    })
    .keys(names)
    .woken_by(probes.nodes.subscribe(), |_, change| {
        change.states().next().map(|node| (Box::from(node.name()), Duration::ZERO))
    })
    .woken_by(stores.pods.subscribe(), Controller::of_pod)
    .beside(|all, names| async move { all.stores.nodes.forward(names).await })
    .after(|all| async move { all.probes.complete(&all.stores, &all.client).await })
    .run()
    .await;
}

/// How a Node is; `None` where there is none.
pub(crate) fn node(nodes: &Nodes, name: &str) -> Option<Node> {
    nodes.get(name).map(|(labels, standing)| Node {
        is_virtual: is_virtual(&labels),
        is_ready: standing.ready_since.is_some(),
        is_deleting: standing.deleting,
    })
}

impl Reconciler for Controller {
    type Key = Box<str>;
    type Error = ReconcileError;

    async fn reconcile(&self, name: &Box<str>) -> Result<Next, ReconcileError> {
        let node = node(&self.stores.nodes, name);
        let mut pods = self.stores.pods.on_node(name);
        pods.retain(|_| node.is_some_and(Node::has_agent));
        let markers = self.markers_of(&pods);
        let probed = probed(&pods, &markers, self.liveness);
        let known = self.probes.nodes.get(&key(name));
        let is_written = self.write_probes(name, step(name, node, known.as_deref(), &probed)).await?;
        let all_written = match self.probes.nodes.get(&key(name)) {
            Some(known) => {
                let taken = self.take_results(&known, &probed).await;
                self.restart(&known, &probed).await?;
                taken?
            }
            None => true,
        };
        Ok(if is_written && all_written { Next::Done } else { Next::After(QUICK_RETRY) })
    }

    fn object(&self, name: &Box<str>) -> Option<ObjectReference> {
        let known = self.probes.nodes.get(&key(name))?;
        Some(about(API_VERSION, KIND, name, known.uid()))
    }
}

impl Controller {
    /// The nodes of a Pod that has changed, if it may be probed.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Box<str>, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let states: Vec<&ObservedPod> = old.into_iter().chain(new).collect();
        let Some(pod) = states.first() else { return Vec::new() };
        let markers = self.probes.of_namespace(pod.namespace());
        let has_liveness = self.liveness && states.iter().any(|pod| has_moved(pod));
        if markers.is_empty() && !has_liveness {
            return Vec::new();
        }
        let concerned =
            trigger::of_pod(old, new, &markers) || has_liveness && trigger::of_containers(old, new);
        if !concerned {
            return Vec::new();
        }
        let nodes: BTreeSet<&str> = states.iter().map(|pod| &*pod.spec.node_name).collect();
        nodes.into_iter().filter(|node| !node.is_empty()).map(|node| (Box::from(node), BURST)).collect()
    }

    /// The markers of the namespaces of these Pods.
    fn markers_of(&self, pods: &[Arc<ObservedPod>]) -> Vec<Arc<Marker>> {
        let namespaces: BTreeSet<&str> = pods.iter().map(|pod| pod.namespace()).collect();
        namespaces.into_iter().flat_map(|namespace| self.probes.of_namespace(namespace)).collect()
    }

    /// Does what is planned for the NodePodProbe; false where it was in another state.
    async fn write_probes(&self, name: &str, step: Step) -> Result<bool, ReconcileError> {
        let path = NODE_PROBES.all().name(name);
        let written = match step {
            Step::Nothing => return Ok(true),
            Step::Create(object) => write::create(&self.client, &NODE_PROBES.all(), object).await,
            Step::Delete(observed) => {
                unless_outdated(write::delete(&self.client, &path, deletion(&observed.uid, None)).await)?;
                self.probes.nodes.deleted(&key(name), &observed.resource_version);
                return Ok(true);
            }
            Step::Change(patch) => write::patch(&self.client, &path, PatchKind::Merge, patch).await,
        };
        self.probes.nodes.take_in(KIND, written)
    }

    /// Writes the results onto the Pods; false where one was in another state. One that can't be written to stops no
    /// other.
    async fn take_results(
        &self,
        known: &NodePodProbe,
        probed: &[Probed<'_>],
    ) -> Result<bool, ReconcileError> {
        let news = results(known, probed);
        // Built before they run: none waits for another.
        let writes: Vec<_> = news.iter().map(|news| self.take(news)).collect();
        let outcomes: Vec<_> = stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
        let mut all_written = true;
        for outcome in outcomes {
            all_written &= outcome?;
        }
        Ok(all_written)
    }

    /// Has the containers restarted that have failed their liveness probes. The failure of one stops no other.
    async fn restart(&self, known: &NodePodProbe, probed: &[Probed<'_>]) -> Result<(), ReconcileError> {
        let mut outcome = Ok(());
        for Restart { pod, request, event } in restarts(known, probed) {
            match recreate(&self.client, pod, request).await {
                Ok(true) => self.event_sender.record(pod.reference(&PODS), event),
                Ok(false) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    async fn take(&self, news: &Results<'_>) -> Result<bool, ReconcileError> {
        let Results { pod, write, conflicts } = news;
        for event in conflicts {
            self.event_sender.record(pod.reference(&PODS), event.clone());
        }
        let carried = carry_out(&self.client, &self.stores.pods, pod, std::slice::from_ref(write)).await?;
        Ok(matches!(carried, Carried::Written(_)))
    }
}
