//! What the controllers of probes share: the PodProbeMarkers and the NodePodProbes, each kind watched once
//! (docs/behaviour/probes.md).
//!
//! ```text
//!   PodProbeMarkers --> podprobemarker   finalizers, counts, marks of Pods without an agent
//!   Nodes, Pods ------> nodepodprobe     one NodePodProbe for each Node; results go onto the Pods
//! ```
//!
//! A NodePodProbe is planned as a whole, from all markers and Pods: what is not wanted any more leaves it, whatever
//! happened while nobody looked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::nodepodprobe::{self, NodePodProbe};
use api::kinds::podprobemarker;
use cluster::resource::Resource;
use kinds::podprobemarker::marker::Marker;
use kinds::podprobemarker::trigger::markers_of;
use kube::Client;
use tokio::time::sleep;
use tracing::warn;

use crate::metrics::Metrics;
use crate::workload::store::follow::{Readable, follow_all, is_gone};
use crate::workload::store::{Identity, Kept, Store};
use crate::workload::stores::Stores;

pub(crate) const MARKERS: Resource<'_> =
    Resource::new(podprobemarker::API_VERSION, podprobemarker::PLURAL, podprobemarker::KIND);
pub(crate) const NODE_PROBES: Resource<'_> =
    Resource::new(nodepodprobe::API_VERSION, nodepodprobe::PLURAL, nodepodprobe::KIND);
/// Pause before Pods are asked for again that could not be listed.
const PAUSE: Duration = Duration::from_secs(1);

/// What PodProbeMarkers are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MarkerGroup {
    /// All of them.
    All,
    /// The namespace.
    Namespace(Box<str>),
}

impl Kept for Marker {
    type Group = MarkerGroup;

    fn identity(&self) -> Identity<'_> {
        Identity::from(&self.object.metadata)
    }

    fn groups(&self) -> Vec<MarkerGroup> {
        vec![MarkerGroup::All, MarkerGroup::Namespace(self.namespace().into())]
    }
}

impl Readable for Marker {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }

    fn is_gone(&self) -> bool {
        is_gone(&self.object.metadata)
    }
}

impl Kept for NodePodProbe {
    /// Namespace and name, in one word, of a PodProbeMarker whose probes it has.
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        Identity::from(&self.metadata)
    }

    fn groups(&self) -> Vec<Box<str>> {
        markers_of(self).into_iter().map(Into::into).collect()
    }
}

impl Readable for NodePodProbe {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        let mut read: Self = serde_json::from_str(json)?;
        // Thousands of them are kept, and nobody reads these.
        read.metadata.annotations.clear();
        Ok(read)
    }
}

/// What is watched for the controllers of probes.
#[derive(Default)]
pub(crate) struct Probes {
    pub(crate) markers: Store<Marker>,
    pub(crate) nodes: Store<NodePodProbe>,
}

impl Probes {
    /// Has what they hold counted.
    pub(crate) fn count(self: &Arc<Self>, metrics: &Metrics) {
        let caches = &metrics.caches;
        caches.count("podprobemarkers", podprobemarker::KIND, self, |all| all.markers.len());
        caches.count("nodepodprobes", nodepodprobe::KIND, self, |all| all.nodes.len());
    }

    /// The PodProbeMarkers of a namespace.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Vec<Arc<Marker>> {
        self.markers.group(&MarkerGroup::Namespace(namespace.into()))
    }

    /// Waits until all markers and NodePodProbes are listed, and all Nodes, and the Pods of all markers: until then it
    /// would seem that probes are not wanted any more.
    pub(crate) async fn complete(&self, stores: &Stores, client: &Client) {
        tokio::join!(self.markers.synced(), self.nodes.synced(), stores.pods.synced());
        while stores.nodes.facts().await.is_err() {}
        let mut markers = self.markers.group(&MarkerGroup::All);
        markers.retain(|marker| marker.is_active());
        for marker in &markers {
            stores.pods.want(podprobemarker::KIND, &marker.key());
        }
        let namespaces: BTreeSet<&str> = markers.iter().map(|marker| marker.namespace()).collect();
        for namespace in namespaces {
            while let Err(error) = stores.pods.complete(client, namespace).await {
                warn!(namespace, %error, "Pods to probe can't be listed, will be tried again");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Keeps them current. Never returns.
pub(crate) async fn watch(probes: Arc<Probes>, client: Client) {
    tokio::join!(
        follow_all(&client, MARKERS, &probes.markers),
        follow_all(&client, NODE_PROBES, &probes.nodes)
    );
}
