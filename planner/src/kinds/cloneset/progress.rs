//! The conditions of a CloneSet (spec 31 §11).
//!
//! `Progressing` measures the time without progress: it starts anew with a rollout, and whenever more Pods
//! are updated, ready or available than before (sharp edge 5). `FailedScale` and `FailedUpdate` hold the
//! last error of a step, and go when the step succeeds (sharp edge 6).

use api::kinds::Time;
use api::kinds::cloneset::{CloneSet, CloneSetCondition, Status};
use api::kinds::shared::ConditionStatus;
use jiff::{SignedDuration, Timestamp};

use super::counting::replicas;

#[cfg(test)]
mod tests;

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "CloneSetAvailable";
const PAUSED: &str = "CloneSetPaused";
const PARTITION_AVAILABLE: &str = "ProgressPartitionAvailable";
const UPDATED: &str = "CloneSetUpdated";
const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

/// The value of `progressDeadlineSeconds` that switches the feature off.
const NO_DEADLINE: i32 = i32::MAX;

/// Where a condition of this type is in the list.
pub(super) fn condition<'a>(
    conditions: &'a [CloneSetCondition],
    kind: &str,
) -> Option<&'a CloneSetCondition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Replaces the condition of its type, or appends it.
pub(super) fn set(conditions: &mut Vec<CloneSetCondition>, condition: CloneSetCondition) {
    match conditions.iter_mut().find(|known| known.kind == condition.kind) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

/// Brings `Progressing` up to date in `new`, whose counters are final. Gives the time at which the
/// deadline passes, if nothing happens until then.
pub(super) fn update(owner: &CloneSet, old: &Status, new: &mut Status, now: Timestamp) -> Option<Timestamp> {
    let seconds = owner.spec.progress_deadline_seconds.filter(|seconds| *seconds != NO_DEADLINE);
    let Some(seconds) = seconds else {
        new.conditions.retain(|condition| condition.kind != PROGRESSING);
        return None;
    };
    let known = condition(&old.conditions, PROGRESSING);
    let reason = state(owner, new);
    let (status, reason, message) = match reason {
        Some((reason, message)) => (ConditionStatus::True, reason, message.to_owned()),
        None if is_overdue(known, old, new, seconds, now) => {
            let message = format!("CloneSet revision {} has timed out progressing", new.update_revision);
            (ConditionStatus::False, DEADLINE_EXCEEDED, message)
        }
        None => (ConditionStatus::True, UPDATED, "CloneSet is progressing".to_owned()),
    };
    let same = known.filter(|known| known.status == status && known.reason == reason);
    let condition = match same {
        Some(same) if reason != UPDATED || !progressed(old, new) => same.clone(),
        _ => {
            let since = known.filter(|known| known.status == status);
            let since = since.and_then(|known| known.last_transition_time.clone());
            CloneSetCondition {
                kind: PROGRESSING.to_owned(),
                status,
                reason: reason.to_owned(),
                message,
                last_update_time: Some(now.into()),
                last_transition_time: Some(since.unwrap_or_else(|| now.into())),
            }
        }
    };
    let updated = condition.last_update_time.as_ref().and_then(Time::timestamp);
    let deadline = updated.and_then(|updated| updated.checked_add(deadline(seconds)).ok());
    set(&mut new.conditions, condition);
    deadline.filter(|_| reason == UPDATED)
}

/// Why no progress is expected, the first that holds.
fn state(owner: &CloneSet, new: &Status) -> Option<(&'static str, &'static str)> {
    let wanted = replicas(&owner.spec);
    let available = new.updated_available_replicas.unwrap_or(0);
    let expected = new.expected_updated_replicas.unwrap_or(0);
    if new.current_revision == new.update_revision
        && [new.replicas, new.updated_replicas, available].iter().all(|count| *count == wanted)
    {
        Some((AVAILABLE, "CloneSet is available"))
    } else if owner.spec.update_strategy.rolling_update.paused {
        Some((PAUSED, "CloneSet is paused"))
    } else if expected < wanted && expected <= available {
        Some((PARTITION_AVAILABLE, "CloneSet has been paused due to partition ready"))
    } else {
        None
    }
}

fn is_overdue(
    known: Option<&CloneSetCondition>,
    old: &Status,
    new: &Status,
    seconds: i32,
    now: Timestamp,
) -> bool {
    let Some(known) = known.filter(|_| !progressed(old, new)) else { return false };
    match known.reason.as_str() {
        DEADLINE_EXCEEDED => true,
        UPDATED => {
            let updated = known.last_update_time.as_ref().and_then(Time::timestamp);
            updated.is_some_and(|updated| now.duration_since(updated) > deadline(seconds))
        }
        // A rollout begins, whose time starts now.
        _ => false,
    }
}

/// Something went on since the status was written: another revision, or more Pods that are updated, ready
/// or available.
fn progressed(old: &Status, new: &Status) -> bool {
    old.update_revision != new.update_revision
        || new.updated_replicas > old.updated_replicas
        || new.updated_ready_replicas > old.updated_ready_replicas
        || new.updated_available_replicas.unwrap_or(0) > old.updated_available_replicas.unwrap_or(0)
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

fn deadline(seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(seconds.into())
}
