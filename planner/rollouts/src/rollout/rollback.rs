//! A release that fails rolls itself back, where its Rollout wants that (docs/behaviour/rollouts.md#automatic-rollback).

use api::annotations::{ROLLBACK_AFTER_SECONDS, ROLLBACK_FAILURE_SHARE};
use api::kinds::rollout::StepState;
use api::kinds::shared::IntOrString;
use values::event::warning;
use values::percent::{Rounding, scaled};

use super::pass::{Halt, Pass};
use super::stall::left;
use crate::batch_release::failure;
use crate::workload::Workload;
use crate::workload::rollback::roll_back;

impl Pass<'_> {
    /// New Pods are waited for: rolls back where that takes too long.
    pub(super) fn watch_deadline(&mut self, workload: &Workload, waits: &str) -> Result<(), Halt> {
        let Some(seconds) = self.seconds(ROLLBACK_AFTER_SECONDS) else { return Ok(()) };
        let since = self.release().last_update_time.clone();
        match left(since.as_ref(), seconds, self.moment.now) {
            Some(left) => {
                self.look_again(left);
                Ok(())
            }
            None => self.roll_itself_back(workload, &format!("no progress for {seconds} seconds: {waits}")),
        }
    }

    /// Rolls back where too many of the new Pods fail.
    pub(super) fn watch_failures(&mut self, workload: &Workload) -> Result<(), Halt> {
        let Some(share) = self.rollout.metadata.annotations.get(ROLLBACK_FAILURE_SHARE) else {
            return Ok(());
        };
        if self.release().current_step_state == StepState::Completed {
            return Ok(());
        }
        let pods = workload.new_pods(self.view)?;
        let (all, mut failures) = (pods.len(), pods.into_iter().filter_map(|pod| Some((pod, failure(pod)?))));
        let Some((pod, reason)) = failures.next() else { return Ok(()) };
        let failing = failures.count() + 1;
        let most = most_failures(share, i32::try_from(all).unwrap_or(i32::MAX));
        if most.and_then(|most| usize::try_from(most).ok()).is_none_or(|most| failing <= most) {
            return Ok(());
        }
        let name = &pod.metadata.name;
        self.roll_itself_back(workload, &format!("{failing} of {all} new pods fail: `{name}` {reason}"))
    }

    /// Does what a person does who rolls back. A rollback in batches has nothing to go back to.
    fn roll_itself_back(&mut self, workload: &Workload, why: &str) -> Result<(), Halt> {
        if workload.is_rolled_back {
            return Ok(());
        }
        let stable = &workload.stable_revision;
        let Some(write) = roll_back(workload, self.view)? else {
            return Err(self.wait(format!("{why}; there is no record of version {stable} to go back to")));
        };
        let message = format!("{why}; rolled back to version {stable}");
        self.writes.push(write);
        self.events.push(warning("RolledBack", message.clone()));
        Err(self.wait(message))
    }
}

/// How many of the new Pods may fail; `None` where the annotation says no share.
pub(crate) fn most_failures(share: &str, pods: i32) -> Option<i32> {
    scaled(&IntOrString::String(share.to_owned()), pods, Rounding::Down)
}
