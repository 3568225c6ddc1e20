//! From the first sight of a new version to the last step, and what comes between
//! (docs/behaviour/rollouts.md#the-controller).

use std::time::Duration;

use api::annotations::ROLLBACK_IN_BATCH;
use api::kinds::Time;
use api::kinds::rollout::{
    ConditionType, FinalisingStep, Phase, Reason, ReleaseStatus, StepState, StrategyKind,
};
use api::kinds::shared::ConditionStatus;
use jiff::SignedDuration;
use values::moment::until;

use super::claim::strategy_hash;
use super::finalising::Cause;
use super::pass::{Halt, Pass};
use crate::workload::{Workload, WorkloadKind};

/// How long a Rollout and a workload that are written together get to settle.
const SETTLING: SignedDuration = SignedDuration::from_secs(3);

impl Pass<'_> {
    /// Takes a running release as far as it gets. It is over where this returns.
    pub(super) fn progress(&mut self, workload: &Workload) -> Result<(), Halt> {
        loop {
            match self.reason() {
                Reason::InRolling => self.roll(workload)?,
                Reason::Paused => self.stay_paused(workload)?,
                Reason::Finalising => self.end(Cause::Succeeded)?,
                Reason::Cancelling => self.end(Cause::RolledBack)?,
                Reason::Completed => {
                    self.status.phase = Phase::Healthy;
                    return Ok(());
                }
                _ => self.prepare(workload)?,
            }
        }
    }

    fn progressing(&mut self, reason: Reason, message: &str) {
        self.say(message);
        self.set_condition(ConditionType::Progressing, ConditionStatus::True, reason, message);
    }

    /// A release begins.
    pub(super) fn initialize(&mut self) {
        self.move_on();
        self.progressing(Reason::Initializing, "Rollout is in Progressing");
    }

    /// The release of the workload's present version, before its first step.
    pub(super) fn new_release(&self, workload: &Workload) -> ReleaseStatus {
        ReleaseStatus {
            current_step_index: 1,
            current_step_state: StepState::BeforeStepUpgrade,
            next_step_index: self.next_step(1),
            last_update_time: Some(self.moment.now.into()),
            observed_rollout_id: workload.rollout_id.clone(),
            observed_workload_generation: Some(workload.generation),
            pod_template_hash: workload.pod_template_hash.clone(),
            rollout_hash: strategy_hash(&self.rollout.spec.strategy),
            stable_revision: workload.stable_revision.clone(),
            revision: workload.update_revision.clone(),
            ..ReleaseStatus::default()
        }
    }

    fn prepare(&mut self, workload: &Workload) -> Result<(), Halt> {
        let mut release = self.new_release(workload);
        if let Some(known) = self.status.release(self.kind) {
            let since = known.last_update_time.clone();
            let same =
                ReleaseStatus { last_update_time: since, message: known.message.clone(), ..release.clone() };
            if same == *known {
                release = same;
            }
        }
        *self.status.release_mut(self.kind) = Some(release);
        if self.has_nothing_to_release(workload) {
            return Err(self.cancel());
        }
        self.check_network()?;
        let condition = self.status.condition(&ConditionType::Progressing);
        let since =
            condition.and_then(|condition| condition.last_update_time.as_ref()).and_then(Time::timestamp);
        let settled = since.and_then(|since| since.checked_add(SETTLING).ok());
        if let Some(left) = settled.and_then(|settled| until(settled, self.moment.now)) {
            return Err(self.wait_for(left, "Rollout is in Progressing"));
        }
        self.claim_traffic_routing()?;
        self.touch();
        self.progressing(Reason::InRolling, "Rollout is in Progressing");
        Ok(())
    }

    /// The old version is wanted again before a step was taken.
    fn has_nothing_to_release(&self, workload: &Workload) -> bool {
        let is_unnamed = workload.rollout_id == workload.update_revision;
        let is_old =
            !workload.stable_revision.is_empty() && workload.stable_revision == workload.update_revision;
        (workload.is_rolled_back && !self.rolls_back_in_batches(workload)) || (is_old && is_unnamed)
    }

    fn roll(&mut self, workload: &Workload) -> Result<(), Halt> {
        let is_new = self.follow(workload);
        if self.is_rolled_back(workload, is_new) {
            return Err(self.cancel());
        }
        if self.rollout.spec.strategy.paused {
            self.progressing(Reason::Paused, "Rollout has been paused");
            return Ok(());
        }
        if is_new && workload.is_rolled_back {
            self.roll_back_in_batches(workload);
        } else if is_new {
            self.replace_release()?;
            self.initialize();
            return Ok(());
        }
        self.recompute_step(workload)?;
        self.advance(workload)?;
        self.restart_finalising();
        self.progressing(
            Reason::Finalising,
            "Rollout has been completed and some closing work is being done",
        );
        Ok(())
    }

    /// Takes over what was not known before. Says whether the workload has another version than the release.
    fn follow(&mut self, workload: &Workload) -> bool {
        let release = self.release();
        if release.revision.is_empty() {
            release.revision.clone_from(&workload.update_revision);
        }
        if release.stable_revision.is_empty() {
            release.stable_revision.clone_from(&workload.stable_revision);
        }
        // A replacement that has begun is gone through with: without the Pods of the replaced version nothing else tells.
        let is_replaced = release.finalising_step != FinalisingStep::Unset;
        if is_replaced || !workload.is_release_of(&release.revision) {
            return true;
        }
        release.revision.clone_from(&workload.update_revision);
        if !workload.pod_template_hash.is_empty() {
            release.pod_template_hash.clone_from(&workload.pod_template_hash);
        }
        false
    }

    fn stay_paused(&mut self, workload: &Workload) -> Result<(), Halt> {
        let is_new = self.follow(workload);
        if self.is_rolled_back(workload, is_new) {
            return Err(self.cancel());
        }
        if self.rollout.spec.strategy.paused {
            return Err(self.wait("Rollout has been paused"));
        }
        // The time of a pause counts on from where the release was held.
        self.progressing(Reason::InRolling, "Rollout is in Progressing");
        Ok(())
    }

    /// The old version is wanted again, at once. That wins over a pause: traffic still goes to the version that is not wanted.
    fn is_rolled_back(&self, workload: &Workload, is_new: bool) -> bool {
        workload.is_rolled_back && is_new && !self.rolls_back_in_batches(workload)
    }

    /// The old version comes back by steps: where Pods are replaced one by one, and traffic stays as it is.
    fn rolls_back_in_batches(&self, workload: &Workload) -> bool {
        use WorkloadKind::{AdvancedStatefulSet, CloneSet, StatefulSet, StatefulSetLike};
        let is_wanted =
            self.rollout.metadata.annotations.get(ROLLBACK_IN_BATCH).is_some_and(|wanted| wanted == "true");
        let is_able = matches!(workload.kind, CloneSet | StatefulSet | AdvancedStatefulSet | StatefulSetLike);
        is_wanted && is_able && self.rollout.spec.strategy.traffic_routings().is_empty()
    }

    fn roll_back_in_batches(&mut self, workload: &Workload) {
        let next = self.next_step(1);
        self.restart_finalising();
        let release = self.release();
        release.revision.clone_from(&workload.update_revision);
        release.pod_template_hash.clone_from(&workload.pod_template_hash);
        release.observed_rollout_id.clone_from(&workload.rollout_id);
        release.observed_workload_generation = Some(workload.generation);
        (release.current_step_index, release.next_step_index) = (1, next);
        self.enter(StepState::BeforeStepUpgrade);
        self.report(
            "workload has been rollback in batches, then rollout is restarted from the first step".to_owned(),
        );
    }

    /// The release ends. That is written down first: once the workload says no longer that a release is running, nothing
    /// else tells a rollback from a newer version.
    fn cancel(&mut self) -> Halt {
        self.report("workload has been rollback, then rollout is canceled".to_owned());
        self.restart_finalising();
        self.progressing(Reason::Cancelling, "");
        self.wait_for(Duration::ZERO, "The workload has been rolled back and the rollout will be cancelled")
    }

    /// The release ends because its workload is gone.
    pub(super) fn cancel_without_workload(&mut self) -> Result<(), Halt> {
        if !matches!(self.reason(), Reason::Finalising | Reason::Cancelling) {
            self.restart_finalising();
            self.progressing(Reason::Cancelling, "Workload Not Found");
        }
        self.finalise(Cause::RolledBack)
    }

    /// A newer version takes the place of the one that was released.
    fn replace_release(&mut self) -> Result<(), Halt> {
        if self.kind == StrategyKind::BlueGreen {
            let message =
                "new version releasing detected in the progress of blue-green release, please rollback first";
            return Err(self.wait(message));
        }
        self.say("a newer version has been detected, and the release of the former one is undone");
        self.undo()?;
        self.report("workload has been changed to a newer version, then rollout is restarted".to_owned());
        Ok(())
    }

    /// All that is to be done at the end of a release.
    fn end(&mut self, cause: Cause) -> Result<(), Halt> {
        self.move_on();
        self.finalise(cause)?;
        let (status, message) = match cause {
            Cause::Succeeded => (ConditionStatus::True, "Rollout progressing has been completed"),
            _ => (ConditionStatus::False, "Rollout progressing has been cancelled"),
        };
        self.say(message);
        self.set_condition(ConditionType::Progressing, ConditionStatus::False, Reason::Completed, message);
        self.set_condition(ConditionType::Succeeded, status, Reason::Unset, "");
        Ok(())
    }

    /// Putting network and workload back begins at its first step.
    pub(super) fn restart_finalising(&mut self) {
        if self.status.release(self.kind).is_some() {
            self.release().finalising_step = FinalisingStep::Unset;
        }
    }
}
