//! Nodes: labels, taints and what they can bear, by which Pods are ranked, put into subsets and given a node each; and
//! whether they are ready. They are watched from the first time that somebody asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::resource::NODES;
use cluster::watched::WatchedObject;
use jiff::Timestamp;
use kube::Client;
use pod::node_fit::{NodeFacts, Nodes as Facts, ObservedNode};
use pod::observed::{Pairs, Pool};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use values::json;

use super::store::follow::{Sink, follow_all, readable};
use crate::ReconcileError;

/// Longest time for the first list.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The Nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    wanted: watch::Sender<bool>,
    synced: watch::Sender<bool>,
    known: Mutex<Known>,
    subscribers: Mutex<Vec<mpsc::UnboundedSender<NodeChange>>>,
}

/// A Node before and after a change; the same twice where only its deletion was asked for, or since when it is ready.
#[derive(Clone, Debug)]
pub(crate) struct NodeChange {
    pub(crate) name: Box<str>,
    pub(crate) old: Option<Arc<NodeFacts>>,
    pub(crate) new: Option<Arc<NodeFacts>>,
    /// It was there from the beginning: every reader of Nodes knows it.
    pub(crate) is_initial: bool,
}

/// How a Node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeState {
    /// Since when it is ready; `None` where it is not.
    pub(crate) ready_since: Option<Timestamp>,
    /// Its deletion was asked for.
    pub(crate) deleting: bool,
}

#[derive(Default)]
struct Known {
    present: Listed,
    /// What the list in progress has shown.
    listing: Option<Listed>,
    /// What Nodes have in common: most labels, and what Nodes of one kind can bear.
    pool: Pool,
}

#[derive(Clone, Default)]
struct Listed {
    facts: Arc<Facts>,
    states: Arc<BTreeMap<Box<str>, NodeState>>,
}

impl Nodes {
    /// Keeps them current from when they are wanted. Never returns.
    pub(crate) async fn follow(&self, client: &Client) {
        // The sender lives as long as this does.
        drop(self.wanted.subscribe().wait_for(|wanted| *wanted).await);
        follow_all(client, NODES, self).await;
    }

    /// All Nodes.
    ///
    /// # Errors
    /// Nodes could not be listed yet.
    pub(crate) async fn facts(&self) -> Result<Arc<Facts>, ReconcileError> {
        self.wanted.send_replace(true);
        let mut synced = self.synced.subscribe();
        let listed = timeout(TIMEOUT, synced.wait_for(|synced| *synced)).await;
        drop(listed.map_err(|_| ReconcileError::NotListed(NODES.kind))?);
        Ok(self.present())
    }

    /// All Nodes, as far as they are known.
    pub(crate) fn present(&self) -> Arc<Facts> {
        self.lock().present.facts.clone()
    }

    /// Labels of a Node, and how it is; `None` where it is not there.
    pub(crate) fn get(&self, name: &str) -> Option<(Pairs, NodeState)> {
        let known = self.lock();
        let labels = known.present.facts.get(name)?.labels.clone();
        Some((labels, known.present.states.get(name).cloned().unwrap_or_default()))
    }

    /// Names and labels of those that are ready and stay, as far as they are known.
    pub(crate) fn ready(&self) -> Vec<(Box<str>, Pairs)> {
        let Listed { facts, states } = self.lock().present.clone();
        let stays = |standing: &NodeState| standing.ready_since.is_some() && !standing.deleting;
        let ready = facts.iter().filter(|(name, _)| states.get(*name).is_some_and(stays));
        ready.map(|(name, facts)| (name.clone(), facts.labels.clone())).collect()
    }

    /// The changes of Nodes from now on, and one of each that there is.
    pub(crate) fn subscribe(&self) -> mpsc::UnboundedReceiver<NodeChange> {
        self.wanted.send_replace(true);
        let (sender, receiver) = mpsc::unbounded_channel();
        // Held together, so that no change is missed.
        let (mut subscribers, known) = (self.subscribers(), self.lock());
        for (name, facts) in &*known.present.facts {
            let new = Some(facts.clone());
            let change = NodeChange { name: name.clone(), old: None, new, is_initial: true };
            // The receiver is in our hands: it is open.
            drop(sender.send(change));
        }
        subscribers.push(sender);
        receiver
    }

    /// Sends the names of Nodes that change from now on, and once of each that there is. Ends with the receiver.
    pub(crate) async fn forward(&self, names: mpsc::UnboundedSender<Box<str>>) {
        let mut changed = self.subscribe();
        while let Some(change) = changed.recv().await {
            if names.send(change.name).is_err() {
                return;
            }
        }
    }

    fn notify(&self, change: &NodeChange) {
        self.subscribers().retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }

    // Held for single operations only, never over an await.
    fn subscribers(&self) -> MutexGuard<'_, Vec<mpsc::UnboundedSender<NodeChange>>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.lock().present.facts.len()
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Nodes {
    fn list_begins(&self) {
        self.lock().listing = Some(Listed::default());
    }

    fn see(&self, object: WatchedObject) {
        let read = |json: &str| json::from_str::<ObservedNode>(json);
        let Some(node) = readable(&object, read) else {
            return self.gone(&object);
        };
        let standing = NodeState {
            ready_since: node.ready_since(),
            deleting: node.metadata.deletion_timestamp.is_some(),
        };
        let (name, mut facts) = node.into_facts();
        let mut known = self.lock();
        let Known { present, listing, pool } = &mut *known;
        let is_listed = listing.is_some();
        let Listed { facts: all, states } = listing.as_mut().unwrap_or(present);
        // Kubelets report often, and seldom anything that rules read.
        let is_known = states.get(&name) == Some(&standing);
        if !is_known {
            Arc::make_mut(states).insert(name.clone(), standing);
        }
        let old = all.get(&name).cloned();
        let is_same = old.as_deref() == Some(&facts);
        let new = match &old {
            Some(old) if is_same => old.clone(),
            _ => {
                pool.share_map(&mut facts.labels);
                pool.share_map(&mut facts.allocatable);
                pool.share_map(&mut facts.conditions);
                Arc::new(facts)
            }
        };
        if !is_same {
            Arc::make_mut(all).insert(name.clone(), new.clone());
        }
        drop(known);
        let changes = !is_known || !is_same;
        if changes && !is_listed {
            self.notify(&NodeChange { name, old, new: Some(new), is_initial: false });
        }
    }

    fn gone(&self, object: &WatchedObject) {
        let mut known = self.lock();
        let Known { present, listing, .. } = &mut *known;
        let Listed { facts, states } = listing.as_mut().unwrap_or(present);
        let name = object.key().1;
        let old = Arc::make_mut(facts).remove(&*name);
        Arc::make_mut(states).remove(&*name);
        drop(known);
        self.notify(&NodeChange { name: name.into(), old, new: None, is_initial: false });
    }

    fn list_ends(&self) {
        let mut known = self.lock();
        let mut changes = Vec::new();
        if let Some(listed) = known.listing.take() {
            let before = std::mem::replace(&mut known.present, listed);
            let now = known.present.facts.clone();
            let is_initial = !*self.synced.borrow();
            let names =
                before.facts.keys().chain(now.keys().filter(|name| !before.facts.contains_key(*name)));
            changes.extend(names.map(|name| NodeChange {
                name: name.clone(),
                old: before.facts.get(name).cloned(),
                new: now.get(name).cloned(),
                is_initial,
            }));
        }
        drop(known);
        changes.iter().for_each(|change| self.notify(change));
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
    async fn changes_of_labels_and_readiness_are_reported_and_heartbeats_are_not() {
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
        let mut reported = nodes.subscribe();
        let initial = reported.try_recv().ok().map(|change| (change.name, change.is_initial));
        assert_eq!(initial, Some(("a".into(), true)));
        nodes.see(state("False", 2));
        assert!(reported.try_recv().is_err());
        assert_eq!(nodes.get("a").unwrap().1, NodeState::default());
        nodes.see(state("True", 3));
        assert_eq!(reported.try_recv().ok().map(|change| change.name).as_deref(), Some("a"));
        assert_eq!(nodes.get("a").unwrap().1.ready_since, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        nodes.gone(&state("True", 3));
        assert!(reported.try_recv().is_ok() && nodes.get("a").is_none());
    }

    #[tokio::test]
    async fn what_nodes_have_in_common_is_kept_once() {
        let nodes = Nodes::default();
        let see = |name: &str, pods: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","resourceVersion":"1","labels":{{"host":"{name}","zone":"1"}}}},
                "status":{{"allocatable":{{"cpu":"4","pods":"{pods}"}},
                "conditions":[{{"type":"Ready","status":"True","lastHeartbeatTime":"{name}"}}]}}}}"#
            );
            nodes.see(serde_json::from_str(&text).unwrap());
        };
        nodes.list_begins();
        for (name, pods) in [("a", "110"), ("b", "110"), ("c", "250")] {
            see(name, pods);
        }
        nodes.list_ends();
        let facts = nodes.facts().await.unwrap();
        let places = |pairs: fn(&NodeFacts) -> &Pairs, key: &str| {
            let [a, b, c] = ["a", "b", "c"].map(|name| pairs(&facts[name]).get(key).unwrap());
            [a.as_ptr() == b.as_ptr(), a.as_ptr() == c.as_ptr()]
        };
        assert_eq!(places(|node| &node.labels, "zone"), [true, true]);
        assert_eq!(places(|node| &node.labels, "host"), [false, false]);
        assert_eq!(places(|node| &node.allocatable, "cpu"), [true, true]);
        assert_eq!(places(|node| &node.conditions, "Ready"), [true, true]);
        assert_eq!(places(|node| &node.allocatable, "pods"), [true, false]);
        let pods = |name: &str| facts[name].allocatable.get("pods").unwrap().to_owned();
        assert_eq!(["a", "b", "c"].map(pods), ["110", "110", "250"]);
    }

    #[tokio::test(start_paused = true)]
    async fn labels_are_those_of_the_last_list_and_of_what_changed_since() {
        let nodes = Nodes::default();
        assert!(nodes.facts().await.is_err(), "not listed yet");
        let zones = async || -> Vec<String> {
            let facts = nodes.facts().await.unwrap();
            facts.iter().map(|(name, node)| format!("{name}-{}", node.labels.get("zone").unwrap())).collect()
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
