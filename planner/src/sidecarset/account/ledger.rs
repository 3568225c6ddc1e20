//! The Pods of a cluster, and for each SidecarSet those that it may be meant for, kept current.
//!
//! A change of a Pod costs one search among the SidecarSets, as a review does. Changes of SidecarSets and
//! Namespaces are gathered and cost one pass over the Pods together; the caller decides how often.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::record::{PodRecord, Uid};
use super::{digest, selection};
use crate::sidecarset::explanation::Reason;
use crate::sidecarset::index::Entry;
use crate::sidecarset::matching::unselected;
use crate::world::World;

/// The Pods, and where they belong.
#[derive(Debug, Default)]
pub struct Ledger {
    pods: HashMap<Uid, Box<PodRecord>>,
    /// What was known of Pods that changed since the ledger was brought up to date.
    changed: Vec<(Uid, Option<Box<PodRecord>>)>,
    /// While a list is under way: the Pods that it has not shown yet.
    unseen: Option<HashSet<Uid>>,
    members: Members,
    seen: Seen,
}

/// For each SidecarSet the Pods whose labels it selects.
type Members = HashMap<Arc<str>, BTreeSet<Uid>>;

/// What of the world decides which Pods a SidecarSet is meant for, in short.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    sidecar_sets: BTreeMap<Arc<str>, u64>,
    namespaces: BTreeMap<Box<str>, u64>,
}

impl Seen {
    fn of(world: &World) -> Self {
        let sidecar_sets = world.sidecar_sets().iter().map(|entry| {
            let object = &entry.object;
            let (uid, canary) = (&object.metadata.uid, object.canary_base());
            (entry.name().into(), digest(&format!("{uid} {} {canary:?}", selection(&object.spec))))
        });
        let namespaces = world.namespaces().map(|(name, namespace)| {
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

    /// The Pods that a SidecarSet may be meant for, those in Namespaces that it does not select among them.
    pub fn members(&self, sidecar_set: &str) -> impl Iterator<Item = (Uid, &PodRecord)> {
        let members = self.members.get(sidecar_set).into_iter().flatten();
        members.filter_map(|uid| Some((*uid, self.get(*uid)?)))
    }

    /// Brings it up to date with changes of Pods; gives the SidecarSets whose account may change.
    pub fn follow(&mut self, world: &World) -> BTreeSet<Arc<str>> {
        let mut touched = BTreeSet::new();
        for (uid, old) in take(&mut self.changed) {
            for entry in old.iter().flat_map(|old| meant_for(world, old)) {
                if let Some((name, members)) = self.members.get_key_value(entry.name())
                    && members.contains(&uid)
                {
                    touched.insert(name.clone());
                }
                if let Some(members) = self.members.get_mut(entry.name()) {
                    members.remove(&uid);
                }
            }
            let Some(pod) = self.pods.get(&uid) else { continue };
            for entry in meant_for(world, pod) {
                let name: Arc<str> = match self.members.get_key_value(entry.name()) {
                    Some((name, _)) => name.clone(),
                    None => entry.name().into(),
                };
                self.members.entry(name.clone()).or_default().insert(uid);
                touched.insert(name);
            }
        }
        touched
    }

    /// Brings it up to date with all changes, by a pass over the Pods, where SidecarSets or Namespaces have
    /// changed in what matters since the last one; gives the SidecarSets whose account may change.
    pub fn pass(&mut self, world: &World) -> BTreeSet<Arc<str>> {
        let seen = Seen::of(world);
        if self.seen == seen {
            return BTreeSet::new();
        }
        self.changed.clear();
        let mut members: Members =
            seen.sidecar_sets.keys().map(|name| (name.clone(), BTreeSet::new())).collect();
        for (uid, pod) in &self.pods {
            for entry in meant_for(world, pod) {
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
        });
        let touched = touched.map(|(name, _)| name.clone()).collect();
        (self.members, self.seen) = (members, seen);
        touched
    }
}

/// The SidecarSets that select the labels of a Pod: of those that name namespaces, the ones that name its
/// own; of the others also those that select other Namespaces than its own.
fn meant_for<'w>(world: &'w World, pod: &PodRecord) -> Vec<&'w Entry> {
    let labels: Vec<(&str, &str)> = pod.labels.iter().collect();
    let mut candidates = world.sidecar_sets().candidates(&pod.namespace, &labels);
    let namespace = world.namespace(&pod.namespace);
    candidates.retain(|entry| {
        let decided = unselected(entry, &pod.labels, || namespace);
        !matches!(decided, Ok(Some(Reason::OtherLabels | Reason::EmptySelector)))
    });
    candidates
}
