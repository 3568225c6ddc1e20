//! A UnitedDeployment with its workloads: how its subsets do (docs/behaviour/uniteddeployment.md#the-controller).

use std::collections::BTreeMap;

use api::kinds::Time;
use api::kinds::shared::{Condition, ConditionStatus};
use api::kinds::uniteddeployment::UnitedDeployment;
use jiff::Timestamp;

use super::adaptive::{self, Judgement, Rules};
use super::allocation::Present;
use super::children::ChildKind;
use super::snapshot::Snapshot;
use super::subset_workloads::{SubsetWorkloads, found};
use super::{Strategy, durations, strategy};
use crate::workload::revision::StoredRevision;

/// How each subset does, by name.
pub(super) type Judgements = BTreeMap<String, Judgement>;
/// The conditions of subsets, by name.
pub(super) type Conditions = BTreeMap<String, Condition>;

/// A UnitedDeployment with its workloads.
pub(super) struct Scene<'a> {
    pub(super) united: &'a UnitedDeployment,
    pub(super) kind: ChildKind,
    pub(super) strategy: Strategy,
    /// The name of the revision from which Pods are updated.
    pub(super) current: &'a str,
    /// The name of the newest revision.
    pub(super) updated: &'a str,
    /// When the newest revision was created, where that is known.
    created: Option<Timestamp>,
    pub(super) found: SubsetWorkloads<'a>,
    pub(super) now: Timestamp,
}

impl<'a> Scene<'a> {
    /// What there is, with Pods on their way from one revision to the other.
    pub(super) fn of(
        snapshot: &Snapshot<'a>,
        kind: ChildKind,
        (current, updated): (&'a str, &'a str),
        newest: Option<&StoredRevision>,
    ) -> Self {
        let created = newest.and_then(|newest| newest.metadata.creation_timestamp.as_ref());
        Self {
            united: snapshot.united,
            kind,
            strategy: strategy(&snapshot.united.spec),
            current,
            updated,
            created: created.and_then(Time::timestamp),
            found: found(snapshot, kind),
            now: snapshot.now,
        }
    }

    /// The conditions of subsets so far. Where waiting Pods keep their place, a subset that is added later is not trusted yet.
    pub(super) fn conditions(&self) -> Conditions {
        let known = &self.united.status.subset_statuses;
        let stored = known.iter().filter_map(|subset| {
            let mut conditions = subset.conditions.iter();
            Some((subset.name.clone(), conditions.find(|one| one.kind == adaptive::SCHEDULABLE)?.clone()))
        });
        let mut all: Conditions = stored.collect();
        if self.strategy == Strategy::Reserving && !known.is_empty() {
            for subset in &self.united.spec.topology.subsets {
                if !known.iter().any(|known| known.name == subset.name) {
                    all.insert(subset.name.clone(), adaptive::of_new_subset(self.now));
                }
            }
        }
        all
    }

    /// How each subset does that has a workload. The rollout began when the status says so, or, where its template was
    /// changed since, when the newest revision was created.
    pub(super) fn judge(&self, conditions: &Conditions, since: Option<Timestamp>) -> Judgements {
        let spec = &self.united.spec;
        let rules = Rules {
            strategy: self.strategy,
            durations: durations(spec),
            updated: self.updated,
            updated_since: since.map(|since| self.created.unwrap_or(since).max(since)),
            now: self.now,
        };
        let subsets = spec.topology.subsets.iter();
        let judged = subsets.filter_map(|subset| {
            let place = self.found.places.get(subset.name.as_str())?;
            let kept = self.kept_in(&subset.name);
            let judgement = adaptive::judge(&rules, place, conditions.get(&subset.name), kept);
            Some((subset.name.clone(), judgement))
        });
        judged.collect()
    }

    /// What the allocation reads of each subset that has a workload, and of those that are not trusted without one.
    pub(super) fn present(
        &self,
        judgements: &Judgements,
        conditions: &Conditions,
    ) -> BTreeMap<&'a str, Present> {
        let names = self.united.spec.topology.subsets.iter().map(|subset| subset.name.as_str());
        let marked = names.filter(|name| {
            conditions.get(*name).is_some_and(|condition| condition.status == ConditionStatus::False)
        });
        let absent = marked.map(|name| (name, Present { was_marked: true, ..Present::default() }));
        let present = self.found.places.iter().map(|(name, place)| {
            let judgement = judgements.get(*name);
            // A workload reports later than its Pods that they are ready.
            let ready = place.active().filter(|pod| pod.is_ready()).count();
            let present = Present {
                replicas: place.child.replicas,
                ready: place.child.ready_replicas.max(i32::try_from(ready).unwrap_or(i32::MAX)),
                reserved: judgement
                    .map_or(0, |judgement| judgement.reserved.saturating_add(judgement.awaited)),
                is_unschedulable: judgement.is_some_and(|judgement| judgement.is_unschedulable),
                was_marked: judgement.is_some_and(|judgement| judgement.was_marked),
            };
            (*name, present)
        });
        absent.chain(present).collect()
    }

    /// How many Pods of a subset are to stay at the old revision, however many it has.
    pub(super) fn partition_of(&self, subset: &str) -> i32 {
        self.united.spec.update_strategy.manual_update.partitions.get(subset).copied().unwrap_or(0).max(0)
    }
    /// How many Pods of a subset stay at the old revision: a Deployment has no partition.
    pub(super) fn kept_in(&self, subset: &str) -> i32 {
        if self.kind.has_partition() { self.partition_of(subset) } else { 0 }
    }
}
