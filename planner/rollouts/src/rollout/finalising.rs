//! Puts network and workload back as they were (docs/behaviour/rollouts.md#finalising).

use api::annotations::IN_PROGRESSING;
use api::features::Feature;
use api::kinds::batchrelease::FinalizingPolicy;
use api::kinds::rollout::FinalisingStep as Step;
use api::kinds::rollout::StrategyKind;
use serde_json::json;

use super::pass::{Halt, Pass};
use super::stall::left;
use crate::workload::Style;
use crate::write::Write;

/// Why a release ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// All steps are done.
    Succeeded,
    /// The old version is wanted again.
    RolledBack,
    /// The Rollout is deleted or disabled.
    Removed,
}

/// Traffic first, since the Pods are to be replaced without care for it.
const TRAFFIC_FIRST: [Step; 5] = [
    Step::RestoreStableService,
    Step::RouteTrafficToStable,
    Step::RemoveCanaryService,
    Step::ResumeWorkload,
    Step::ReleaseWorkloadControl,
];
/// The Service selects old Pods alone until no new one is left.
const CANARY_ROLLBACK: [Step; 5] = [
    Step::RouteTrafficToStable,
    Step::ResumeWorkload,
    Step::ReleaseWorkloadControl,
    Step::RestoreStableService,
    Step::RemoveCanaryService,
];
/// Old Pods go after all traffic has left them.
const BLUE_GREEN_SUCCESS: [Step; 6] = [
    Step::RouteTrafficToNew,
    Step::RestoreStableService,
    Step::ResumeWorkload,
    Step::RouteTrafficToStable,
    Step::RemoveCanaryService,
    Step::ReleaseWorkloadControl,
];
/// New Pods go after all traffic has left them.
const BLUE_GREEN_ROLLBACK: [Step; 5] = [
    Step::RouteTrafficToStable,
    Step::ResumeWorkload,
    Step::RestoreStableService,
    Step::RemoveCanaryService,
    Step::ReleaseWorkloadControl,
];
/// The workload stays as it was frozen.
const REPLACEMENT: [Step; 3] =
    [Step::RouteTrafficToStable, Step::ReleaseWorkloadControl, Step::RemoveCanaryService];

fn order(kind: StrategyKind, cause: Cause) -> &'static [Step] {
    static ORDERS: (&[Step], &[Step], &[Step], &[Step]) =
        (&TRAFFIC_FIRST, &CANARY_ROLLBACK, &BLUE_GREEN_SUCCESS, &BLUE_GREEN_ROLLBACK);
    match (kind, cause) {
        (StrategyKind::Canary, Cause::RolledBack) => ORDERS.1,
        (StrategyKind::BlueGreen, Cause::Succeeded) => ORDERS.2,
        (StrategyKind::BlueGreen, Cause::RolledBack) => ORDERS.3,
        (_, Cause::Removed) | (StrategyKind::Canary, Cause::Succeeded) => ORDERS.0,
    }
}

impl Pass<'_> {
    /// Puts network and workload back as they were. Both are where this returns.
    pub(super) fn finalise(&mut self, cause: Cause) -> Result<(), Halt> {
        self.hand_back(cause)?;
        self.take(order(self.kind, cause), cause)
    }

    /// Undoes what a release did whose version was replaced by a newer one. The Service keeps selecting old Pods, so that
    /// no request reaches new ones until the first step of the next release.
    pub(super) fn undo(&mut self) -> Result<(), Halt> {
        static ORDER: &[Step] = &REPLACEMENT;
        self.take(ORDER, Cause::RolledBack)
    }

    /// Takes the steps that are left of an order.
    fn take(&mut self, order: &'static [Step], cause: Cause) -> Result<(), Halt> {
        loop {
            let reached = self.release().finalising_step.clone();
            if reached == Step::End {
                return Ok(());
            }
            let position = order.iter().position(|step| *step == reached).unwrap_or(0);
            let Some(step) = order.get(position) else { return Ok(()) };
            self.release().finalising_step = step.clone();
            match step {
                Step::RestoreStableService if cause == Cause::RolledBack => self.restore_after_rollback()?,
                Step::RestoreStableService => self.restore_stable_service()?,
                Step::RouteTrafficToStable => self.route_to_stable()?,
                Step::RouteTrafficToNew => self.route_to_new()?,
                Step::RemoveCanaryService => self.remove_canary_service()?,
                Step::ResumeWorkload => self.resume(cause)?,
                _ => {
                    self.delete_batches()?;
                    self.touch();
                }
            }
            self.release().finalising_step = order.get(position + 1).cloned().unwrap_or(Step::End);
        }
    }

    /// The workload no longer says that a release is running. Once this has been done a new release may say so, which is
    /// left to that one, unless the Rollout goes.
    fn hand_back(&mut self, cause: Cause) -> Result<(), Halt> {
        let has_begun = self.release().finalising_step != Step::Unset;
        if !has_begun {
            self.release_traffic_routings()?;
        }
        let Some(workload) = self.released_workload()? else { return Ok(()) };
        if has_begun && cause != Cause::Removed {
            return Ok(());
        }
        let resumes_anew = !self.keeps_workload(cause) && self.create_resuming_batches(workload)?;
        let patch = json!({"metadata": {"annotations": {IN_PROGRESSING: null}}});
        self.writes.push(Write::patch(&workload.name, &workload.object, patch));
        self.hands_back = true;
        if resumes_anew { Err(self.wait("the workload is handed back")) } else { Ok(()) }
    }

    /// The workload stays as far as it is: its Rollout was deleted, and that is wanted so.
    fn keeps_workload(&self, cause: Cause) -> bool {
        let is_deleted = self.rollout.metadata.deletion_timestamp.is_some();
        cause == Cause::Removed
            && is_deleted
            && self.style == Style::Partition
            && self.settings.gates.enabled(Feature::KeepWorkloadPausedOnRolloutDeletion)
    }

    fn resume(&mut self, cause: Cause) -> Result<(), Halt> {
        let is_left = cause != Cause::Removed && self.is_released_anew()? && !self.is_resuming()?;
        if is_left || self.keeps_workload(cause) {
            return Ok(());
        }
        let policy = match cause {
            Cause::Succeeded => FinalizingPolicy::WaitResume,
            _ => FinalizingPolicy::Immediate,
        };
        self.resume_workload(&policy)
    }

    /// A new template came meanwhile, and its release begins where this one leaves the workload.
    fn is_released_anew(&self) -> Result<bool, Halt> {
        Ok(!self.hands_back && self.released_workload()?.is_some())
    }

    /// Pods of the version that is not wanted get no requests while there are any, unless they stay for too long. A newer
    /// release begins with a Service that selects old Pods.
    fn restore_after_rollback(&mut self) -> Result<(), Halt> {
        if self.is_released_anew()? {
            return Ok(());
        }
        let waits =
            self.style == Style::Partition && !self.rollout.spec.strategy.traffic_routings().is_empty();
        if let Some(workload) = self.workload.filter(|_| waits) {
            let (old, all) = (workload.updated_replicas, workload.status_replicas);
            let since = self.release().last_update_time.clone();
            let left = left(since.as_ref(), self.deadline(), self.moment.now);
            if let Some(left) = left.filter(|_| old < all) {
                return Err(self.wait_for(left, format!("{old} of {all} pods have the old version again")));
            }
        }
        self.restore_stable_service()
    }
}
