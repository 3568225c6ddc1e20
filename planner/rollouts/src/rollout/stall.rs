//! Says that nothing moves (docs/behaviour/rollouts.md#the-controller).

use api::kinds::rollout::{ConditionType, Reason};
use api::kinds::shared::ConditionStatus;

use super::pass::Pass;
use super::progress::left;

/// On a Rollout: after how many seconds without a further new Pod its release counts as stalled.
pub const DEADLINE: &str = "kutter.io/rollout-deadline-seconds";
/// The same where nothing is said: as long as a Deployment gets.
const DEFAULT_DEADLINE: i32 = 600;

impl Pass<'_> {
    /// New Pods are waited for: sets condition `Stalled` where that takes too long.
    pub(super) fn watch_progress(&mut self, waits: &str) {
        let wanted = self.rollout.metadata.annotations.get(DEADLINE);
        let seconds = wanted.and_then(|seconds| seconds.parse().ok()).filter(|seconds| *seconds > 0);
        let seconds = seconds.unwrap_or(DEFAULT_DEADLINE);
        let since = self.release().last_update_time.clone();
        match left(since.as_ref(), seconds, self.moment.now) {
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

    /// The release moves.
    pub(super) fn move_on(&mut self) {
        self.drop_condition(&ConditionType::Stalled);
    }
}
