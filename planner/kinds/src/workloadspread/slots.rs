//! Slots in subsets: a new Pod takes one, a Pod that is to be deleted gives its own back. Both are recorded in the
//! status at once, so that they count for the next Pod (docs/behaviour/workloadspread.md#choice-of-a-subset).
//!
//! Invariants:
//! 1. A slot is given only while `maxReplicas` is above the Pods that run, less those that are to be deleted, plus
//!    those on their way.
//! 2. A recorded Pod takes no second slot, and gives back no second one. One that is to be deleted is recorded as
//!    such alone: whichever list holds it, a deletion frees its slot at once.
//! 3. Only the list of the Pod's version is written.

use std::collections::BTreeMap;

use api::kinds::Time;
use api::kinds::workloadspread::{Subset, SubsetStatus, WorkloadSpread};
use jiff::Timestamp;
use serde_json::json;

use super::spread::{Maximum, free_slots, is_schedulable, maximum};
use values::reservation::{Reservable, Reserved};

/// What the admission of a Pod wants of a WorkloadSpread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The version of the Pod.
    pub version: String,
    /// The replicas of the workload, if they are known; they matter only for quotas in percent.
    pub replicas: Option<i32>,
    /// What is about to happen to the Pod.
    pub event: PodEvent,
}

/// What is about to happen to a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEvent {
    /// It is created.
    Creation {
        /// The Pod's name, or a UUID where the API server has not given it one yet.
        id: String,
    },
    /// It is deleted or evicted.
    Deletion {
        /// The Pod's name.
        pod: String,
        /// What it was known by at its creation.
        id: String,
        /// Its subset.
        subset: String,
    },
    /// Its creation or its deletion was refused by others, after it was noted.
    Refusal {
        /// The Pod's name.
        pod: String,
    },
}

/// What becomes of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The Pod has a slot in this subset.
    Subset(String),
    /// The Pod comes into this subset, which takes any number.
    Unlimited(String),
    /// No subset takes it.
    Full,
    /// The deletion or the refusal is noted.
    Noted,
    /// There is nothing to note.
    Nothing,
}

/// How claims on WorkloadSpreads are decided.
#[derive(Clone, Copy, Debug)]
pub struct Slots;

impl Reservable for Slots {
    type Claim = Claim;
    type Answer = Answer;

    fn reserve(&self, object: &str, claims: &[Claim], now: Timestamp) -> Reserved<Answer> {
        let Ok(spread) = serde_json::from_str::<WorkloadSpread>(object) else {
            // Only something that is no WorkloadSpread can't be read; it divides no Pods.
            return Reserved { patch: None, answers: claims.iter().map(Answer::without_spread).collect() };
        };
        let mut lists: BTreeMap<&str, List<'_>> = BTreeMap::new();
        let answers = claims.iter().map(|claim| {
            let list = lists.entry(&claim.version).or_insert_with(|| List::new(&spread, &claim.version));
            list.decide(claim, now)
        });
        let answers = answers.collect();
        let written: BTreeMap<&str, &[SubsetStatus]> = lists
            .iter()
            .filter(|(_, list)| list.is_changed)
            .map(|(version, list)| (*version, list.items.as_slice()))
            .collect();
        let patch = (!written.is_empty()).then(|| {
            let version = &spread.metadata.resource_version;
            json!({"metadata": {"resourceVersion": version}, "status": {"versionedSubsetStatuses": written}})
                .to_string()
        });
        Reserved { patch, answers }
    }

    fn is_refusal(answer: &Answer) -> bool {
        *answer == Answer::Full
    }

    fn holds_on_any_state(answer: &Answer) -> bool {
        matches!(answer, Answer::Unlimited(_) | Answer::Nothing)
    }
}

impl Answer {
    fn without_spread(claim: &Claim) -> Self {
        match claim.event {
            PodEvent::Creation { .. } => Self::Full,
            PodEvent::Deletion { .. } | PodEvent::Refusal { .. } => Self::Nothing,
        }
    }
}

/// The subsets of one version.
struct List<'s> {
    subsets: &'s [Subset],
    /// In the order of the subsets, one for each.
    items: Vec<SubsetStatus>,
    is_changed: bool,
}

/// The list of `version` as the spec wants it: a subset that is new has an item, one that is gone has none.
pub(crate) fn items(spread: &WorkloadSpread, version: &str) -> Vec<SubsetStatus> {
    let known = spread.status.versioned_subset_statuses.get(version).map_or(&[][..], Vec::as_slice);
    let named = |items: &[SubsetStatus], name: &str| items.iter().find(|item| item.name == name).cloned();
    let item = |subset: &Subset| {
        named(known, &subset.name).unwrap_or_else(|| {
            let total = named(&spread.status.subset_statuses, &subset.name).unwrap_or_default();
            let missing_replicas = whole(&total);
            SubsetStatus { name: subset.name.clone(), missing_replicas, ..SubsetStatus::default() }
        })
    };
    spread.spec.subsets.iter().map(item).collect()
}

/// The slots of a version without Pods, as far as they follow from the total over all versions.
fn whole(total: &SubsetStatus) -> i32 {
    match total.missing_replicas {
        missing if missing > 0 => missing.saturating_add(total.replicas),
        missing => missing,
    }
}

/// How many Pods more a subset takes; `None` where any number.
pub(crate) fn free(subset: &Subset, item: &SubsetStatus, replicas: Option<i32>) -> Option<i32> {
    match maximum(subset, replicas) {
        Maximum::Unlimited => None,
        Maximum::Pods(max) => {
            Some(free_slots(max, item.replicas, item.deleting_pods.len(), item.creating_pods.len()))
        }
        Maximum::Unknown => Some(item.missing_replicas.max(0)),
    }
}

impl<'s> List<'s> {
    fn new(spread: &'s WorkloadSpread, version: &str) -> Self {
        Self { subsets: &spread.spec.subsets, items: items(spread, version), is_changed: false }
    }

    fn decide(&mut self, claim: &Claim, now: Timestamp) -> Answer {
        match &claim.event {
            PodEvent::Creation { id } => self.admit(id, claim.replicas, now),
            PodEvent::Deletion { pod, id, subset } => self.release((pod, id), subset, claim.replicas, now),
            PodEvent::Refusal { pod } => self.forget(pod, claim.replicas),
        }
    }

    fn admit(&mut self, id: &str, replicas: Option<i32>, now: Timestamp) -> Answer {
        let mut all = self.subsets.iter().zip(&self.items);
        if let Some((subset, _)) = all.find(|(_, item)| item.creating_pods.contains_key(id)) {
            return Answer::Subset(subset.name.clone());
        }
        // A Pod of this name that was to be deleted is gone, and the new one is as good as it in its subset.
        let former = self.items.iter().position(|item| item.deleting_pods.contains_key(id));
        if let Some(item) = former.and_then(|position| self.items.get_mut(position)) {
            item.deleting_pods.remove(id);
            item.replicas = item.replicas.saturating_sub(1).max(0);
            self.is_changed = true;
        }
        for position in former.into_iter().chain(0..self.items.len()) {
            let Some((subset, item)) = self.at(position) else { continue };
            match free(subset, item, replicas) {
                _ if !is_schedulable(item) => continue,
                None => return Answer::Unlimited(subset.name.clone()),
                Some(slots) if slots > 0 => {
                    item.creating_pods.insert(id.to_owned(), Time::from(now));
                    item.missing_replicas = slots - 1;
                    self.is_changed = true;
                }
                Some(_) => continue,
            }
            return Answer::Subset(subset.name.clone());
        }
        Answer::Full
    }

    fn release(
        &mut self,
        (pod, id): (&str, &str),
        subset: &str,
        replicas: Option<i32>,
        now: Timestamp,
    ) -> Answer {
        if self.items.iter().any(|item| item.deleting_pods.contains_key(pod)) {
            return Answer::Nothing;
        }
        let on_its_way = self.items.iter().position(|item| item.creating_pods.contains_key(id));
        let position = on_its_way.or_else(|| self.subsets.iter().position(|known| known.name == subset));
        let Some((subset, item)) = position.and_then(|position| self.at(position)) else {
            return Answer::Nothing;
        };
        if maximum(subset, replicas) == Maximum::Unlimited {
            return Answer::Nothing;
        }
        // It is there, or it could not be deleted: it counts, whether the controller has observed it or not.
        if item.creating_pods.remove(id).is_some() {
            item.replicas = item.replicas.saturating_add(1);
        }
        item.deleting_pods.insert(pod.to_owned(), Time::from(now));
        recount(subset, item, replicas, 1);
        self.is_changed = true;
        Answer::Noted
    }

    /// The Pod is not created after all, or not deleted after all. It has a name: without one the record is not known.
    fn forget(&mut self, pod: &str, replicas: Option<i32>) -> Answer {
        for (subset, item) in self.subsets.iter().zip(&mut self.items) {
            let freed = if item.creating_pods.remove(pod).is_some() {
                1
            } else if item.deleting_pods.remove(pod).is_some() {
                -1
            } else {
                continue;
            };
            recount(subset, item, replicas, freed);
            self.is_changed = true;
        }
        // Not `Nothing`: an old state may lack the record.
        Answer::Noted
    }

    fn at(&mut self, position: usize) -> Option<(&'s Subset, &mut SubsetStatus)> {
        Some((self.subsets.get(position)?, self.items.get_mut(position)?))
    }
}

/// Writes down what is free after a change that has freed `freed` slots.
fn recount(subset: &Subset, item: &mut SubsetStatus, replicas: Option<i32>, freed: i32) {
    item.missing_replicas = match maximum(subset, replicas) {
        Maximum::Unknown => item.missing_replicas.max(0).saturating_add(freed).max(0),
        Maximum::Unlimited | Maximum::Pods(_) => {
            free(subset, item, replicas).unwrap_or(item.missing_replicas)
        }
    };
}

#[cfg(test)]
mod tests;
