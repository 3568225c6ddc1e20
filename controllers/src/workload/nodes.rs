//! Nodes: their labels and taints, by which Pods are ranked where the template spreads them, and put into subsets; and
//! whether they are ready. They are watched from the first time that somebody asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::kinds::Time;
use cluster::resource::NODES;
use cluster::watched::WatchedObject;
use jiff::Timestamp;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use planner::pod::node_fit::Taint;
use planner::pod::observed::{Pairs, PodMetadata};
use serde::Deserialize;
use tokio::sync::{mpsc, watch};
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
    subscribers: Mutex<Vec<mpsc::UnboundedSender<Box<str>>>>,
}

/// How a Node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Since when it is ready; `None` where it is not.
    pub(crate) ready_since: Option<Timestamp>,
    /// Its deletion was asked for.
    pub(crate) deleting: bool,
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
    standings: Arc<BTreeMap<Box<str>, Standing>>,
}

/// What is known of Nodes.
#[derive(Default)]
pub(crate) struct Facts(Seen);

impl Facts {
    /// Labels and taints of a Node; `None` where it is not there.
    pub(crate) fn get(&self, node: &str) -> Option<(&Pairs, &[Taint])> {
        let Self(Seen { labels, taints, .. }) = self;
        Some((labels.get(node)?, taints.get(node).map_or(&[], |taints| taints)))
    }
}

#[derive(Deserialize)]
struct Node {
    metadata: PodMetadata,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
struct NodeStatus {
    conditions: Option<Vec<NodeCondition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<Time>,
}

impl NodeStatus {
    /// Since when the Node is ready; for ever where it does not say.
    fn ready_since(&self) -> Option<Timestamp> {
        let mut conditions = self.conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.kind == "Ready" && condition.status == "True")?;
        Some(ready.last_transition_time.as_ref().and_then(Time::timestamp).unwrap_or(Timestamp::MIN))
    }
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

    /// Labels of a Node, and how it is; `None` where it is not there.
    pub(crate) fn get(&self, name: &str) -> Option<(Pairs, Standing)> {
        let known = self.lock();
        let labels = known.present.labels.get(name)?.clone();
        Some((labels, known.present.standings.get(name).cloned().unwrap_or_default()))
    }

    /// The names of Nodes that change from now on, and once of each that there is.
    pub(crate) fn subscribe(&self) -> mpsc::UnboundedReceiver<Box<str>> {
        self.wanted.send_replace(true);
        let (sender, receiver) = mpsc::unbounded_channel();
        // Held together, so that no change is missed.
        let (mut subscribers, known) = (self.subscribers(), self.lock());
        for name in known.present.labels.keys() {
            // The receiver is in our hands: it is open.
            drop(sender.send(name.clone()));
        }
        subscribers.push(sender);
        receiver
    }

    /// Sends the names of Nodes that change from now on, and once of each that there is. Ends with the receiver.
    pub(crate) async fn forward(&self, names: mpsc::UnboundedSender<Box<str>>) {
        let mut changed = self.subscribe();
        while let Some(name) = changed.recv().await {
            if names.send(name).is_err() {
                return;
            }
        }
    }

    fn tell(&self, name: &str) {
        self.subscribers().retain(|subscriber| subscriber.send(name.into()).is_ok());
    }

    // Held for single operations only, never over an await.
    fn subscribers(&self) -> MutexGuard<'_, Vec<mpsc::UnboundedSender<Box<str>>>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
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
        let Some(Node { metadata, spec, status }) = readable(&object, read) else {
            return self.gone(&object);
        };
        let standing =
            Standing { ready_since: status.ready_since(), deleting: metadata.deletion_timestamp.is_some() };
        let name = metadata.name.clone();
        let mut known = self.lock();
        let Known { present, listing } = &mut *known;
        let is_listed = listing.is_some();
        let Seen { labels, taints, standings } = listing.as_mut().unwrap_or(present);
        let tainted = spec.taints.filter(|taints| !taints.is_empty());
        // Kubelets report often, and seldom anything about labels, taints or readiness.
        if taints.get(&name) != tainted.as_ref() {
            let taints = Arc::make_mut(taints);
            match tainted {
                Some(tainted) => drop(taints.insert(name.clone(), tainted)),
                None => drop(taints.remove(&name)),
            }
        }
        let mut changes = false;
        if standings.get(&name) != Some(&standing) {
            Arc::make_mut(standings).insert(name.clone(), standing);
            changes = true;
        }
        if labels.get(&name) != Some(&metadata.labels) {
            Arc::make_mut(labels).insert(name.clone(), metadata.labels);
            changes = true;
        }
        drop(known);
        if changes && !is_listed {
            self.tell(&name);
        }
    }

    fn gone(&self, object: &WatchedObject) {
        let mut known = self.lock();
        let Known { present, listing } = &mut *known;
        let Seen { labels, taints, standings } = listing.as_mut().unwrap_or(present);
        let name = object.key().1;
        Arc::make_mut(labels).remove(&*name);
        Arc::make_mut(taints).remove(&*name);
        Arc::make_mut(standings).remove(&*name);
        drop(known);
        self.tell(&name);
    }

    fn list_ends(&self) {
        let mut known = self.lock();
        let mut names: Vec<Box<str>> = Vec::new();
        if let Some(listed) = known.listing.take() {
            names.extend(known.present.labels.keys().chain(listed.labels.keys()).cloned());
            known.present = listed;
        }
        drop(known);
        names.iter().for_each(|name| self.tell(name));
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

    #[tokio::test]
    async fn changes_of_labels_and_readiness_are_told_and_heartbeats_are_not() {
        let nodes = Nodes::default();
        let state = |status: &str, heartbeat: u32| {
            let text = format!(
                r#"{{"metadata":{{"name":"a","resourceVersion":"1"}},"status":{{"conditions":[{{"type":"Ready",
                "status":"{status}","lastTransitionTime":"2026-01-01T00:00:00Z","lastHeartbeatTime":"{heartbeat}"}}]}}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        nodes.list_begins();
        nodes.see(state("False", 1));
        nodes.list_ends();
        let mut told = nodes.subscribe();
        assert_eq!(told.try_recv().as_deref(), Ok("a"));
        nodes.see(state("False", 2));
        assert!(told.try_recv().is_err());
        assert_eq!(nodes.get("a").unwrap().1, Standing::default());
        nodes.see(state("True", 3));
        assert_eq!(told.try_recv().as_deref(), Ok("a"));
        assert_eq!(nodes.get("a").unwrap().1.ready_since, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        nodes.gone(&state("True", 3));
        assert!(told.try_recv().is_ok() && nodes.get("a").is_none());
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
