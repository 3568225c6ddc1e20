//! The Pods of a cluster, and for each SidecarSet those that it may be meant for, kept current.
//!
//! A change of a Pod costs one search among the SidecarSets, as a review does. Changes of SidecarSets and
//! Namespaces are gathered and cost one pass over the Pods together; the caller decides how often.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::record::{PodRecord, Uid};
use super::{Account, Case};
use crate::sidecarset::explanation::Reason;
use crate::sidecarset::index::Entry;
use crate::sidecarset::inventory::Inventory;
use crate::sidecarset::matching::unselected;
use crate::sidecarset::subject::{digest, selection};

/// The Pods, and where they belong.
#[derive(Debug, Default)]
pub struct Ledger {
    pods: HashMap<Uid, Box<PodRecord>>,
    /// What was known of Pods that changed since the ledger was brought up to date.
    changed: Vec<(Uid, Option<Box<PodRecord>>)>,
    /// While a list is in progress: the Pods that it has not shown yet.
    unseen: Option<HashSet<Uid>>,
    members: Members,
    seen: Seen,
}

/// For each SidecarSet the Pods that it selects. Those that it would select in another Namespace are not kept:
/// where each tenant has a SidecarSet, those would be all Pods for each of them.
type Members = HashMap<Arc<str>, BTreeSet<Uid>>;

/// What of the inventory decides which Pods a SidecarSet is meant for, in short.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    sidecar_sets: BTreeMap<Arc<str>, u64>,
    namespaces: BTreeMap<Box<str>, u64>,
}

impl Seen {
    fn of(inventory: &Inventory) -> Self {
        let sidecar_sets = inventory.sidecar_sets().iter().map(|entry| {
            let object = &entry.object;
            let (uid, canary) = (&object.metadata.uid, object.canary_base());
            (entry.name().into(), digest(&format!("{uid} {} {canary:?}", selection(&object.spec))))
        });
        let namespaces = inventory.namespaces().iter().map(|(name, namespace)| {
            // A map of texts: writing it as JSON cannot fail.
            (name.into(), digest(&serde_json::to_string(&namespace.labels()).unwrap_or_default()))
        });
        Self { sidecar_sets: sidecar_sets.collect(), namespaces: namespaces.collect() }
    }
}

impl Ledger {
    /// A list begins: it will show all Pods.
    pub fn list_begins(&mut self) {
        self.unseen = Some(self.pods.keys().copied().collect());
    }

    /// The list is complete: Pods that it did not show are gone.
    pub fn list_ends(&mut self) {
        for uid in self.unseen.take().into_iter().flatten() {
            self.gone(uid);
        }
    }

    /// Takes in a Pod; `None` for one that has ended.
    pub fn see(&mut self, uid: Uid, pod: Option<PodRecord>) {
        let Some(pod) = pod else { return self.gone(uid) };
        if let Some(unseen) = &mut self.unseen {
            unseen.remove(&uid);
        }
        match self.pods.get_mut(&uid) {
            Some(known) if known.is_alike(&pod) => **known = pod,
            Some(known) => {
                let old = std::mem::replace(known, Box::new(pod));
                self.changed.push((uid, Some(old)));
            }
            None => {
                self.pods.insert(uid, Box::new(pod));
                self.changed.push((uid, None));
            }
        }
    }

    /// Forgets a Pod.
    pub fn gone(&mut self, uid: Uid) {
        if let Some(old) = self.pods.remove(&uid) {
            self.changed.push((uid, Some(old)));
        }
    }

    /// A Pod by its UID.
    pub fn get(&self, uid: Uid) -> Option<&PodRecord> {
        self.pods.get(&uid).map(|pod| &**pod)
    }

    /// How many Pods are known.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// True where no Pod is known.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The Pods that a SidecarSet is meant for.
    pub fn members(&self, sidecar_set: &str) -> impl Iterator<Item = (Uid, &PodRecord)> {
        let members = self.members.get(sidecar_set).into_iter().flatten();
        members.filter_map(|uid| Some((*uid, self.get(*uid)?)))
    }

    /// Counts the Pods of a SidecarSet. Where it is meant for none, all Pods are looked at for those that it
    /// would be meant for in another Namespace.
    pub fn account(&self, case: &Case<'_>) -> Account {
        let account = Account::of(case, self.members(case.name()).map(|(_, pod)| pod));
        if account.matched == 0 && case.looks_elsewhere() {
            return Account::of(case, self.pods.values().map(|pod| &**pod));
        }
        account
    }

    /// Brings it up to date with changes of Pods; gives the SidecarSets whose account may change.
    pub fn follow(&mut self, inventory: &Inventory) -> BTreeSet<Arc<str>> {
        let mut touched = BTreeSet::new();
        for (uid, old) in take(&mut self.changed) {
            for (entry, _) in old.iter().flat_map(|old| meant_for(inventory, old)) {
                let (name, members) = self.members_of(entry);
                // One that has no Pods reports those in other Namespaces.
                if members.remove(&uid) || members.is_empty() {
                    touched.insert(name);
                }
            }
            let Some(pod) = self.pods.get(&uid) else { continue };
            for (entry, selected) in meant_for(inventory, pod) {
                let (name, members) = self.members_of(entry);
                if selected || members.is_empty() {
                    touched.insert(name);
                }
                if selected {
                    members.insert(uid);
                }
            }
        }
        touched
    }

    fn members_of(&mut self, entry: &Entry) -> (Arc<str>, &mut BTreeSet<Uid>) {
        let name: Arc<str> = match self.members.get_key_value(entry.name()) {
            Some((name, _)) => name.clone(),
            None => entry.name().into(),
        };
        (name.clone(), self.members.entry(name).or_default())
    }

    /// Brings it up to date with all changes, by a pass over the Pods, where SidecarSets or Namespaces have
    /// changed in what matters since the last one; gives the SidecarSets whose account may change.
    pub fn pass(&mut self, inventory: &Inventory) -> BTreeSet<Arc<str>> {
        let seen = Seen::of(inventory);
        if self.seen == seen {
            return BTreeSet::new();
        }
        let changed: Vec<Uid> = take(&mut self.changed).into_iter().map(|(uid, _)| uid).collect();
        let mut members: Members =
            seen.sidecar_sets.keys().map(|name| (name.clone(), BTreeSet::new())).collect();
        for (uid, pod) in &self.pods {
            for (entry, _) in meant_for(inventory, pod).into_iter().filter(|(_, selected)| *selected) {
                if let Some(members) = members.get_mut(entry.name()) {
                    members.insert(*uid);
                }
            }
        }
        // Which Namespaces there are concerns every SidecarSet that selects some.
        let moved = seen.namespaces != self.seen.namespaces;
        let touched = members.iter().filter(|(name, pods)| {
            moved
                || self.seen.sidecar_sets.get(*name) != seen.sidecar_sets.get(*name)
                || self.members.get(*name) != Some(pods)
                || pods.is_empty()
        });
        let mut touched: BTreeSet<Arc<str>> = touched.map(|(name, _)| name.clone()).collect();
        for pod in changed.iter().filter_map(|uid| self.get(*uid)) {
            touched.extend(meant_for(inventory, pod).into_iter().map(|(entry, _)| entry.name().into()));
        }
        (self.members, self.seen) = (members, seen);
        touched
    }
}

/// The SidecarSets that select the labels of a Pod, and whether they select its Namespace too: of those that
/// name namespaces, the ones that name its own; of the others all.
fn meant_for<'w>(inventory: &'w Inventory, pod: &PodRecord) -> Vec<(&'w Entry, bool)> {
    let labels: Vec<(&str, &str)> = pod.labels.iter().collect();
    let namespace = inventory.namespace(&pod.namespace);
    let candidates = inventory.sidecar_sets().candidates(&pod.namespace, &labels).into_iter();
    let decided = candidates.filter_map(|entry| match unselected(entry, &pod.labels, || namespace) {
        Ok(Some(Reason::OtherLabels | Reason::EmptySelector)) => None,
        Ok(Some(Reason::OtherNamespace)) => Some((entry, false)),
        Ok(_) | Err(_) => Some((entry, true)),
    });
    decided.collect()
}
