//! What the steps of one plan share.

use api::features::Feature;
use api::kinds::cloneset::CloneSet;
use jiff::Timestamp;

use super::claims::{Claims, TakenIds};
use super::counting::{Difference, Limits, Question};
use super::members::groups;
use crate::workload::member::Member;
use crate::workload::revision::StoredRevision;
use crate::workload::snapshot::Snapshot;
use pod::inplace::Rules;

/// What the steps of one plan share.
pub(super) struct Working<'a> {
    pub(super) snapshot: &'a Snapshot<'a, CloneSet>,
    pub(super) now: Timestamp,
    pub(super) rules: Rules,
    pub(super) limits: Limits,
    pub(super) history: Vec<&'a StoredRevision>,
    pub(super) current: &'a StoredRevision,
    pub(super) update: &'a StoredRevision,
    pub(super) members: Vec<Member<'a>>,
    pub(super) claims: Claims<'a>,
    pub(super) taken: TakenIds<'a>,
    /// Gate `PreparingUpdateAsUpdate`.
    pub(super) prepared_is_new: bool,
    /// The update takes no Pod out of service; asked only where there may be surge.
    pub(super) keeps_serving: bool,
}

impl<'a> Working<'a> {
    pub(super) fn set(&self) -> &'a CloneSet {
        self.snapshot.workload
    }

    /// The arithmetic, with or without Pods that prepare for an update among the updated ones.
    pub(super) fn difference(&self, prepared_is_new: bool) -> Difference {
        let Snapshot { workload: set, gates, environment, .. } = self.snapshot;
        let question = Question {
            limits: self.limits,
            rollback: self.current.name() != self.update.name()
                && gates.enabled(Feature::CloneSetPartitionRollback),
            exclude_preparing_delete: set.spec.scale_strategy.exclude_preparing_delete
                || environment.exclude_preparing_delete,
            keeps_serving: self.keeps_serving,
        };
        let (old, new) = groups(&self.members, prepared_is_new);
        question.answer(old, new)
    }
}
