//! The steps of a release, from its beginning to its end (docs/behaviour/rollouts.md#the-controller).
//!
//! ```text
//!   pass          one look at a Rollout: what is planned so far
//!   claim         what the Rollout, its workload and its TrafficRouting carry of it
//!   progress      from the first sight of a new version to the last step, and what comes between
//!   steps         the states of a step
//!   batches       the BatchRelease by which Pods are replaced
//!   network       where traffic goes
//!   finalising    puts network and workload back as they were
//!   measures      what metrics say of it
//!   stall         says that nothing moves
//!   rollback      rolls back what fails
//! ```
//!
//! Each function goes on to the next state where nothing is to be waited for. What it does is safe to repeat: it looks at
//! what there is, so a plan whose writes were carried out in part is continued by the next one.

use api::finalizers;
use api::kinds::rollout::{ConditionType, Phase, Reason, ReleaseStatus, Rollout, Status, StepState};
use api::kinds::shared::ConditionStatus;
use values::moment::Moment;

use crate::plan::Plan;
use crate::settings::Settings;
use crate::view::{Unread, View};
use crate::workload;
use finalising::Cause;
use pass::{Halt, Pass};

mod batches;
mod claim;
mod finalising;
pub mod measures;
mod network;
mod pass;
mod progress;
mod rollback;
mod stall;
mod steps;
#[cfg(test)]
mod tests;

pub use claim::strategy_hash;
pub(crate) use claim::traffic_routing_name;
pub(crate) use rollback::most_failures;
pub(crate) use stall::seconds;

/// What to do about a Rollout.
///
/// # Errors
/// Something has not been read.
pub fn plan(
    rollout: &Rollout,
    view: &View,
    settings: &Settings,
    moment: &Moment,
) -> Result<Plan<Status>, Unread> {
    let (reference, namespace) = (&rollout.spec.workload_ref, &rollout.metadata.namespace);
    let style = workload::Style::of(&rollout.spec.strategy, reference);
    let workload = workload::read(reference, namespace, style, view)?;
    let mut pass = Pass::new(rollout, workload.as_ref(), view, settings, moment);
    match pass.run() {
        Ok(()) | Err(Halt::Wait) => Ok(pass.finish()),
        Err(Halt::Unread(unread)) => Err(unread),
    }
}

/// Whether a status says more than how many Pods there are, and for what a step waits: that may be written a moment later.
pub fn is_urgent(before: &Status, after: &Status) -> bool {
    let without_counts = |status: &Status| {
        let mut status = status.clone();
        status.message.clear();
        status.conditions.iter_mut().for_each(|condition| condition.message.clear());
        for release in [&mut status.canary_status, &mut status.blue_green_status].into_iter().flatten() {
            (release.replicas, release.ready_replicas, release.last_update_time) = (0, 0, None);
            release.observed_workload_generation = None;
            release.message.clear();
        }
        status
    };
    without_counts(before) != without_counts(after)
}

impl Pass<'_> {
    fn run(&mut self) -> Result<(), Halt> {
        let is_at_rest = matches!(self.status.phase, Phase::Healthy | Phase::Initial | Phase::Disabled);
        if !is_at_rest && self.has_lost_workload()? {
            self.workload = None;
        }
        if self.rollout.metadata.deletion_timestamp.is_some() {
            return self.terminate();
        }
        self.claim();
        if self.rollout.spec.disabled || self.status.phase == Phase::Disabling {
            return self.disable();
        }
        let Some(workload) = self.workload else { return self.miss_workload() };
        self.claim_workload(workload);
        if !workload.is_observed() {
            let message = "the controller of the workload has not observed its newest generation";
            return Err(self.wait_for(network::RECHECK, message));
        }
        self.observe(workload);
        loop {
            match self.status.phase {
                Phase::Healthy => self.rest(workload)?,
                Phase::Progressing => self.progress(workload)?,
                _ => {
                    self.status.phase = Phase::Healthy;
                    self.say("Rollout is healthy");
                }
            }
        }
    }

    /// The status follows the spec of the workload, as long as it is about its version.
    fn observe(&mut self, workload: &workload::Workload) {
        let release = self.status.release_mut(self.kind).as_mut();
        if let Some(release) = release.filter(|release| workload.is_release_of(&release.revision)) {
            release.observed_workload_generation = Some(workload.generation);
        }
    }

    /// The Rollout is deleted: network and workload come first.
    fn terminate(&mut self) -> Result<(), Halt> {
        if self.status.phase != Phase::Terminating {
            self.status.phase = Phase::Terminating;
            self.restart_finalising();
        }
        let kind = ConditionType::Terminating;
        if !self.rollout.metadata.finalizers.iter().any(|held| held == finalizers::ROLLOUT) {
            let message = "Rollout has been terminated";
            self.set_condition(kind, ConditionStatus::False, Reason::Completed, message);
            return Ok(());
        }
        self.set_condition(kind, ConditionStatus::True, Reason::InTerminating, "Rollout is in terminating");
        self.say("Rollout is in terminating");
        self.finalise(Cause::Removed)?;
        self.let_go();
        Ok(())
    }

    /// The Rollout is disabled: a release that is running ends.
    fn disable(&mut self) -> Result<(), Halt> {
        let is_held = self.released_workload()?.is_some();
        if self.status.phase == Phase::Progressing || is_held && self.status.phase != Phase::Disabling {
            self.status.phase = Phase::Disabling;
            self.restart_finalising();
        }
        if self.status.phase == Phase::Disabling {
            self.say("Rollout is in disabling");
            self.finalise(Cause::Removed)?;
            let message = "Rollout has been disabled";
            self.set_condition(
                ConditionType::Progressing,
                ConditionStatus::False,
                Reason::Completed,
                message,
            );
            self.move_on();
        }
        self.status.phase = Phase::Disabled;
        self.say("Rollout is disabled");
        Ok(())
    }

    /// The workload is not there. A release that was running ends first, so that traffic reaches the next one.
    fn miss_workload(&mut self) -> Result<(), Halt> {
        if self.status.phase == Phase::Progressing {
            self.say("Workload Not Found");
            self.cancel_without_workload()?;
        }
        let message = "Workload Not Found".to_owned();
        self.status = Status { phase: Phase::Initial, message, ..Status::default() };
        Ok(())
    }

    /// No release is running: looks whether one begins.
    fn rest(&mut self, workload: &workload::Workload) -> Result<(), Halt> {
        if self.released_workload()?.is_some() && !self.hands_back {
            self.status.phase = Phase::Progressing;
            self.drop_condition(&ConditionType::Succeeded);
            self.initialize();
            return Ok(());
        }
        if self.status.release(self.kind).is_none() {
            let last = self.last_step();
            let release = ReleaseStatus {
                current_step_index: last,
                next_step_index: -1,
                current_step_state: StepState::Completed,
                ..self.new_release(workload)
            };
            *self.status.release_mut(self.kind) = Some(release);
        }
        if self.status.condition(&ConditionType::Progressing).is_none() {
            self.say("workload deployment is completed");
        }
        Err(Halt::Wait)
    }
}
