//! Condition `Progressing`: how long a rollout may take without progress.
//!
//! The time starts anew with a rollout, and whenever more Pods are updated, ready or available than before.
//! Once it has passed the condition says so until the rollout is over or held as its user asked for, or another
//! revision is rolled out: clients rely on it, whatever progress follows.

use api::kinds::Time;
use api::kinds::shared::ConditionStatus;
use jiff::{SignedDuration, Timestamp};

use super::conditions::{self, Condition};

/// The type of the condition.
pub const PROGRESSING: &str = "Progressing";
/// The reason after the deadline.
pub(crate) const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const PARTITION_AVAILABLE: &str = "ProgressPartitionAvailable";

/// The value of `progressDeadlineSeconds` that switches the feature off.
const NO_DEADLINE: i32 = i32::MAX;

/// Why no progress is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// All Pods are updated and available.
    Available,
    /// The rollout is paused.
    Paused,
    /// All Pods that the partition lets go are updated and available.
    PartitionAvailable,
}

/// How far a rollout is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached<'a> {
    /// The revision that Pods go to.
    pub update_revision: &'a str,
    /// Numbers of Pods that grow with a rollout.
    pub counts: [i32; 5],
}

impl Reached<'_> {
    /// It is about the same revision as `before`, and no number has grown.
    fn stands_still_since(&self, before: &Self) -> bool {
        self.update_revision == before.update_revision
            && self.counts.iter().zip(before.counts).all(|(now, before)| *now <= before)
    }
}

/// A rollout that is watched.
#[derive(Clone, Debug)]
pub struct Watched<'a> {
    /// The workload's kind.
    pub kind: &'a str,
    /// `spec.progressDeadlineSeconds`.
    pub deadline_seconds: Option<i32>,
    /// Why no progress is expected, the first that holds.
    pub rest: Option<Rest>,
    /// What the stored status says.
    pub before: Reached<'a>,
    /// How far it is now.
    pub now: Reached<'a>,
}

impl Watched<'_> {
    /// Brings the condition up to date. Gives the time at which the deadline passes, if nothing happens until
    /// then.
    pub fn record(&self, conditions: &mut Vec<Condition>, now: Timestamp) -> Option<Timestamp> {
        let seconds = self.deadline_seconds.filter(|seconds| *seconds != NO_DEADLINE);
        let Some(seconds) = seconds else {
            conditions.retain(|condition| condition.kind != PROGRESSING);
            return None;
        };
        let allowed = SignedDuration::from_secs(seconds.into());
        let known = conditions::condition(conditions, PROGRESSING);
        let Self { kind, rest, .. } = self;
        let updated = format!("{kind}Updated");
        let is_overdue = known.is_some_and(|known| self.is_overdue(known, &updated, allowed, now));
        let (status, reason, message) = match rest {
            Some(Rest::Available) => {
                (ConditionStatus::True, format!("{kind}Available"), format!("{kind} is available"))
            }
            Some(Rest::Paused) => {
                (ConditionStatus::True, format!("{kind}Paused"), format!("{kind} is paused"))
            }
            Some(Rest::PartitionAvailable) => {
                let message = format!("{kind} has been paused due to partition ready");
                (ConditionStatus::True, PARTITION_AVAILABLE.to_owned(), message)
            }
            None if is_overdue => {
                let revision = self.now.update_revision;
                let message = format!("{kind} revision {revision} has timed out progressing");
                (ConditionStatus::False, DEADLINE_EXCEEDED.to_owned(), message)
            }
            None => (ConditionStatus::True, updated.clone(), format!("{kind} is progressing")),
        };
        let is_progressing = reason == updated;
        let same = known.filter(|known| known.status == status && known.reason == reason);
        let condition = match same {
            Some(same) if !is_progressing || self.now.stands_still_since(&self.before) => same.clone(),
            _ => {
                let since = known.filter(|known| known.status == status);
                let since = since.and_then(|known| known.last_transition_time.clone());
                Condition {
                    kind: PROGRESSING.to_owned(),
                    status,
                    reason,
                    message,
                    last_update_time: Some(now.into()),
                    last_transition_time: Some(since.unwrap_or_else(|| now.into())),
                }
            }
        };
        let written = condition.last_update_time.as_ref().and_then(Time::timestamp);
        let deadline = written.and_then(|written| written.checked_add(allowed).ok());
        conditions::set(conditions, condition);
        deadline.filter(|_| is_progressing)
    }

    fn is_overdue(&self, known: &Condition, updated: &str, allowed: SignedDuration, now: Timestamp) -> bool {
        if known.reason == DEADLINE_EXCEEDED {
            return self.now.update_revision == self.before.update_revision;
        }
        // Any other reason than `updated` ends with this reconcile: a rollout begins, whose time starts now.
        let written = known.last_update_time.as_ref().and_then(Time::timestamp);
        known.reason == updated
            && self.now.stands_still_since(&self.before)
            && written.is_some_and(|written| now.duration_since(written) > allowed)
    }
}
