//! Labels and taints of Nodes, by which Pods are ranked where the template spreads them, and put into subsets. Nodes are
//! watched from the first time that somebody asks: hardly any object does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::resource::NODES;
use cluster::watched::WatchedObject;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use planner::pod::node_fit::Taint;
use planner::pod::observed::{Pairs, PodMetadata};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::store::follow::{Sink, follow, readable};
use crate::ReconcileError;

/// Longest time for the first list.
const PATIENCE: Duration = Duration::from_secs(15);

/// Labels by the Node's name.
pub(crate) type Labels = Arc<BTreeMap<Box<str>, Pairs>>;

/// The Nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    wanted: watch::Sender<bool>,
    synced: watch::Sender<bool>,
    known: Mutex<Known>,
}

/// Taints by the Node's name, of those that have some.
type Taints = Arc<BTreeMap<Box<str>, Arc<[Taint]>>>;

#[derive(Default)]
struct Known {
    present: Seen,
    /// What the list under way has shown.
    listing: Option<Seen>,
}

#[derive(Clone, Default)]
struct Seen {
    labels: Labels,
    taints: Taints,
}

/// What is known of Nodes.
#[derive(Default)]
pub(crate) struct Facts(Seen);

impl Facts {
    /// Labels and taints of a Node; `None` where it is not there.
    pub(crate) fn get(&self, node: &str) -> Option<(&Pairs, &[Taint])> {
        let Self(Seen { labels, taints }) = self;
        Some((labels.get(node)?, taints.get(node).map_or(&[], |taints| taints)))
    }
}

#[derive(Deserialize)]
struct Node {
    metadata: PodMetadata,
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Default, Deserialize)]
struct NodeSpec {
    taints: Option<Arc<[Taint]>>,
}

impl Nodes {
    /// Keeps them current from when they are wanted. Ends never.
    pub(crate) async fn follow(&self, client: &Client) {
        // The sender lives as long as this does.
        drop(self.wanted.subscribe().wait_for(|wanted| *wanted).await);
        follow(Api::all_with(client.clone(), &NODES.api_resource()), Config::default(), self).await;
    }

    /// The labels of all Nodes.
    ///
    /// # Errors
    /// Nodes could not be listed yet.
    pub(crate) async fn labels(&self) -> Result<Labels, ReconcileError> {
        Ok(self.facts().await?.0.labels)
    }

    /// What is known of all Nodes.
    ///
    /// # Errors
    /// Nodes could not be listed yet.
    pub(crate) async fn facts(&self) -> Result<Facts, ReconcileError> {
        self.wanted.send_replace(true);
        let mut synced = self.synced.subscribe();
        let listed = timeout(PATIENCE, synced.wait_for(|synced| *synced)).await;
        drop(listed.map_err(|_| ReconcileError::NotListed(NODES.kind))?);
        Ok(Facts(self.lock().present.clone()))
    }

    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.lock().present.labels.len()
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Nodes {
    fn list_begins(&self) {
        self.lock().listing = Some(Seen::default());
    }

    fn see(&self, object: WatchedObject) {
        let read = |json: &str| serde_json::from_str::<Node>(json);
        let Some(Node { metadata, spec }) = readable(&object, read) else { return self.gone(&object) };
        let mut known = self.lock();
        let Known { present, listing } = &mut *known;
        let Seen { labels, taints } = listing.as_mut().unwrap_or(present);
        let tainted = spec.taints.filter(|taints| !taints.is_empty());
        // Kubelets report often, and seldom anything about labels or taints.
        if taints.get(&metadata.name) != tainted.as_ref() {
            let taints = Arc::make_mut(taints);
            match tainted {
                Some(tainted) => drop(taints.insert(metadata.name.clone(), tainted)),
                None => drop(taints.remove(&metadata.name)),
            }
        }
        if labels.get(&metadata.name) != Some(&metadata.labels) {
            Arc::make_mut(labels).insert(metadata.name, metadata.labels);
        }
    }

    fn gone(&self, object: &WatchedObject) {
        let mut known = self.lock();
        let Known { present, listing } = &mut *known;
        let Seen { labels, taints } = listing.as_mut().unwrap_or(present);
        let name = object.key().1;
        Arc::make_mut(labels).remove(&*name);
        Arc::make_mut(taints).remove(&*name);
    }

    fn list_ends(&self) {
        let mut known = self.lock();
        if let Some(listed) = known.listing.take() {
            known.present = listed;
        }
        drop(known);
        self.synced.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, zone: &str) -> WatchedObject {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","resourceVersion":"1","labels":{{"zone":"{zone}"}}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn labels_are_those_of_the_last_list_and_of_what_changed_since() {
        let nodes = Nodes::default();
        assert!(nodes.labels().await.is_err(), "not listed yet");
        let zones = async || -> Vec<String> {
            let labels = nodes.labels().await.unwrap();
            labels.iter().map(|(name, labels)| format!("{name}-{}", labels.get("zone").unwrap())).collect()
        };
        nodes.list_begins();
        nodes.see(node("a", "1"));
        nodes.list_ends();
        assert_eq!(zones().await, ["a-1"]);
        nodes.see(node("b", "1"));
        nodes.see(node("a", "2"));
        assert_eq!(zones().await, ["a-2", "b-1"]);
        nodes.gone(&node("b", "1"));
        assert_eq!(zones().await, ["a-2"]);
        nodes.list_begins();
        nodes.see(node("c", "1"));
        assert_eq!(zones().await, ["a-2"], "the list is under way");
        nodes.list_ends();
        assert_eq!(zones().await, ["c-1"]);
    }
}
