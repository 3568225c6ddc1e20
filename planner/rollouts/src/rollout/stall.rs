//! Says that nothing moves (docs/behaviour/rollouts.md#the-controller).

use std::time::Duration;

use api::annotations::ROLLOUT_DEADLINE_SECONDS;
use api::kinds::Time;
use api::kinds::rollout::{ConditionType, Reason};
use api::kinds::shared::ConditionStatus;
use jiff::SignedDuration;
use values::moment::until;

use super::pass::Pass;

/// Seconds without a further new Pod after which a release counts as stalled: as long as a Deployment gets.
const DEFAULT_DEADLINE: i32 = 600;

impl Pass<'_> {
    /// New Pods are waited for: sets condition `Stalled` where that takes too long.
    pub(super) fn watch_progress(&mut self, waits: &str) {
        let since = self.release().last_update_time.clone();
        match left(since.as_ref(), self.deadline(), self.moment.now) {
            Some(left) => {
                self.move_on();
                self.look_again(left);
            }
            None => {
                let reason = Reason::Other("ProgressDeadlineExceeded".to_owned());
                self.set_condition(ConditionType::Stalled, ConditionStatus::True, reason, waits);
            }
        }
    }

    /// For how many seconds Pods are waited for.
    pub(super) fn deadline(&self) -> i32 {
        self.seconds(ROLLOUT_DEADLINE_SECONDS).unwrap_or(DEFAULT_DEADLINE)
    }

    /// The seconds that an annotation of the Rollout gives.
    pub(super) fn seconds(&self, annotation: &str) -> Option<i32> {
        seconds(self.rollout.metadata.annotations.get(annotation)?)
    }

    /// The release moves.
    pub(super) fn move_on(&mut self) {
        self.drop_condition(&ConditionType::Stalled);
    }
}

/// How long until a number of seconds after a time has passed; `None` where it has.
pub(super) fn left(since: Option<&Time>, seconds: i32, now: jiff::Timestamp) -> Option<Duration> {
    let since = since.and_then(Time::timestamp)?;
    until(since.checked_add(SignedDuration::from_secs(seconds.into())).ok()?, now)
}

/// The seconds that the value of an annotation says; `None` for what is no positive number.
pub(crate) fn seconds(value: &str) -> Option<i32> {
    value.parse().ok().filter(|seconds| *seconds > 0)
}
