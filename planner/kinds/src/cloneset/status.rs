//! The status of a CloneSet.

use api::kinds::cloneset::{CloneSet, KIND, Status};
use jiff::Timestamp;

use super::counting::replicas;
use super::working::Working;
use crate::workload::kind::WorkloadStatus;
use crate::workload::member::Member;
use crate::workload::progress::{Reached, Rest, Watched};
use crate::workload::status::{StatusPlan, selector_text};

/// Counts the Pods. Gives the plan for the status, without the conditions that others add, and the time
/// at which the deadline of the rollout passes.
pub(super) fn observe(working: &Working<'_>) -> (StatusPlan<Status>, Option<Timestamp>) {
    let set = working.set();
    let Working { members, limits, now, .. } = working;
    let count = |counts: &dyn Fn(&Member<'_>) -> bool| {
        i32::try_from(members.iter().filter(|member| counts(member)).count()).unwrap_or(i32::MAX)
    };
    let positive = |number: i32| Some(number).filter(|number| *number != 0);
    let total = count(&|_| true);
    let updated = count(&|member| member.is_updated);
    let finished = updated == total && total == replicas(&set.spec);
    let current = if finished { working.update } else { working.current };
    let expected = i32::try_from(limits.replicas - limits.partition).unwrap_or(i32::MAX);
    let mut new = Status {
        observed_generation: set.metadata.generation,
        replicas: total,
        ready_replicas: count(&|member| member.is_ready),
        available_replicas: count(&|member| member.is_available),
        updated_replicas: updated,
        updated_ready_replicas: count(&|member| member.is_updated && member.is_ready),
        updated_available_replicas: positive(count(&|member| member.is_updated && member.is_available)),
        expected_updated_replicas: positive(expected),
        update_revision: working.update.name().to_owned(),
        current_revision: current.name().to_owned(),
        collision_count: Some(working.snapshot.collisions(set.status.collision_count)),
        label_selector: selector_text(&set.spec.selector),
        conditions: set.status.conditions.clone(),
    };
    let deadline = record_progress(set, &set.status, &mut new, *now);
    (StatusPlan::new(set, new, *now), deadline)
}

/// Brings condition `Progressing` up to date in `new`, whose counters are final. Gives the time at which the
/// deadline passes, if nothing happens until then.
pub(super) fn record_progress(
    set: &CloneSet,
    old: &Status,
    new: &mut Status,
    now: Timestamp,
) -> Option<Timestamp> {
    let watched = Watched {
        kind: KIND,
        deadline_seconds: set.spec.progress_deadline_seconds,
        rest: rest(set, new),
        before: reached(old),
        now: reached(new),
    };
    let mut conditions = new.conditions();
    let deadline = watched.record(&mut conditions, now);
    new.set_conditions(conditions);
    deadline
}

fn reached(status: &Status) -> Reached<'_> {
    Reached {
        update_revision: &status.update_revision,
        counts: [
            status.updated_replicas,
            status.updated_ready_replicas,
            status.updated_available_replicas.unwrap_or(0),
            status.ready_replicas,
            status.available_replicas,
        ],
    }
}

/// Why no progress is expected.
fn rest(set: &CloneSet, new: &Status) -> Option<Rest> {
    let wanted = replicas(&set.spec);
    let available = new.updated_available_replicas.unwrap_or(0);
    let expected = new.expected_updated_replicas.unwrap_or(0);
    if new.current_revision == new.update_revision
        && [new.replicas, new.updated_replicas, available].iter().all(|count| *count == wanted)
    {
        Some(Rest::Available)
    } else if set.spec.update_strategy.rolling_update.paused {
        Some(Rest::Paused)
    } else if expected < wanted && expected <= available {
        Some(Rest::PartitionAvailable)
    } else {
        None
    }
}
