//! The status of a CloneSet (spec 31 §10).

use api::kinds::cloneset::{CloneSet, Status};
use jiff::Timestamp;

use super::members::Member;
use super::progress;
use crate::workload::status::{StatusPlan, selector_text};

/// The names that the status gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revisions<'a> {
    pub(super) current: &'a str,
    pub(super) update: &'a str,
    pub(super) collision_count: i32,
}

/// Counts the Pods. Gives the plan for the status, without the conditions that others add, and the time
/// at which the deadline of the rollout passes.
pub(super) fn observe(
    set: &CloneSet,
    members: &[Member<'_>],
    revisions: Revisions<'_>,
    expected_updated: i64,
    now: Timestamp,
) -> (StatusPlan<Status>, Option<Timestamp>) {
    let count = |counts: &dyn Fn(&Member<'_>) -> bool| {
        i32::try_from(members.iter().filter(|member| counts(member)).count()).unwrap_or(i32::MAX)
    };
    let positive = |number: i32| Some(number).filter(|number| *number != 0);
    let total = count(&|_| true);
    let updated = count(&|member| member.is_updated);
    let finished = updated == total && total == super::counting::replicas(&set.spec);
    let current = if finished { revisions.update } else { revisions.current };
    let mut new = Status {
        observed_generation: set.metadata.generation,
        replicas: total,
        ready_replicas: count(&|member| member.is_ready),
        available_replicas: count(&|member| member.is_available),
        updated_replicas: updated,
        updated_ready_replicas: count(&|member| member.is_updated && member.is_ready),
        updated_available_replicas: positive(count(&|member| member.is_updated && member.is_available)),
        expected_updated_replicas: positive(i32::try_from(expected_updated).unwrap_or(i32::MAX)),
        update_revision: revisions.update.to_owned(),
        current_revision: current.to_owned(),
        collision_count: Some(revisions.collision_count),
        label_selector: selector_text(&set.spec.selector),
        conditions: set.status.conditions.clone(),
    };
    let deadline = progress::update(set, &set.status, &mut new, now);
    (StatusPlan::new(set, new, now), deadline)
}
