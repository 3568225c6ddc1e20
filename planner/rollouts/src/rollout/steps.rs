//! The states of a step (docs/behaviour/rollouts.md#steps).

use api::kinds::rollout::{Step, StepState, StrategyKind};

use super::claim::strategy_hash;
use super::pass::{Halt, Pass};
use super::stall::left;
use crate::workload::batch::updated_after;
use crate::workload::{Style, Workload};

/// All Pods are new after a step. Without any, nothing was seen of the new version.
fn covers_all(step: &Step, workload: &Workload) -> bool {
    workload.replicas > 0 && updated_after(step, workload) >= workload.replicas
}

impl Pass<'_> {
    /// Takes the release from state to state. All steps are done where this returns.
    pub(super) fn advance(&mut self, workload: &Workload) -> Result<(), Halt> {
        self.count()?;
        self.watch_failures(workload)?;
        self.jump(workload);
        loop {
            let index = self.release().current_step_index;
            let state = self.release().current_step_state.clone();
            let Some(step) = self.step(index).filter(|_| state != StepState::Completed) else {
                self.release().current_step_state = StepState::Completed;
                return Ok(());
            };
            match state {
                StepState::StepUpgrade => self.upgrade(workload, step)?,
                StepState::StepTrafficRouting => {
                    self.route(step)?;
                    self.release().current_step_state = StepState::StepMetricsAnalysis;
                }
                StepState::StepMetricsAnalysis => self.enter(StepState::StepPaused),
                StepState::StepPaused => {
                    self.pause(workload, step)?;
                    self.release().current_step_state = StepState::StepReady;
                }
                StepState::StepReady => self.next(),
                _ => {
                    self.before_upgrade(workload, step)?;
                    self.enter(StepState::StepUpgrade);
                }
            }
        }
    }

    /// Keeps traffic from the new Pods before there are any, and undoes what earlier steps did to it where this one has none.
    fn before_upgrade(&mut self, workload: &Workload, step: &Step) -> Result<(), Halt> {
        let index = self.release().current_step_index;
        if !step.is_routed() {
            self.restore_stable_service()?;
            self.route_to_stable()?;
            self.remove_canary_service()
        } else if self.goes_back(index)? {
            // Requests leave Pods before these go.
            self.route(step)
        } else if self.replaces_all(workload, step) {
            // No old Pod is left for the Service to select.
            self.restore_stable_service()
        } else if index == 1 {
            self.patch_stable_service()
        } else {
            Ok(())
        }
    }

    /// No old Pod is left after the step, or by now.
    fn replaces_all(&self, workload: &Workload, step: &Step) -> bool {
        self.style == Style::Partition && (covers_all(step, workload) || workload.has_only_new_pods())
    }

    fn upgrade(&mut self, workload: &Workload, step: &Step) -> Result<(), Halt> {
        self.upgrade_batch(workload)?;
        self.move_on();
        let index = self.release().current_step_index;
        self.report(format!("upgrade step({index}) canary pods with new versions done"));
        let is_left_to_service = self.replaces_all(workload, step);
        self.release().current_step_state =
            if is_left_to_service { StepState::StepMetricsAnalysis } else { StepState::StepTrafficRouting };
        Ok(())
    }

    fn pause(&mut self, workload: &Workload, step: &Step) -> Result<(), Halt> {
        let (index, last) = (self.release().current_step_index, self.last_step());
        if workload.replicas == 0 {
            return Err(
                self.wait(format!("Rollout is in step({index}/{last}), and the workload has no pods"))
            );
        }
        if step.is_routed() && self.replaces_all(workload, step) {
            self.restore_stable_service()?;
        }
        if self.kind == StrategyKind::Canary && index == last && covers_all(step, workload) {
            return Ok(());
        }
        let Some(seconds) = step.pause.duration else {
            let message = format!(
                "Rollout is in step({index}/{last}), and you need manually confirm to enter the next step"
            );
            return Err(self.wait(message));
        };
        let since = self.release().last_update_time.clone();
        match left(since.as_ref(), seconds, self.moment.now) {
            None => Ok(()),
            Some(left) => {
                let message = format!(
                    "Rollout is in step({index}/{last}), and wait duration({seconds} seconds) to enter the next step"
                );
                Err(self.wait_for(left, message))
            }
        }
    }

    /// Goes to the next step, or to the end.
    fn next(&mut self) {
        let index = self.release().current_step_index;
        if index < self.last_step() {
            self.go_to(index.saturating_add(1), StepState::BeforeStepUpgrade);
        } else {
            self.enter(StepState::Completed);
        }
    }

    fn go_to(&mut self, index: i32, state: StepState) {
        let next = self.next_step(index);
        let release = self.release();
        (release.current_step_index, release.next_step_index) = (index, next);
        release.current_step_state = state;
    }

    /// Goes to the step that somebody chose.
    fn jump(&mut self, workload: &Workload) {
        let (index, chosen) = (self.release().current_step_index, self.release().next_step_index);
        let expected = self.next_step(index);
        let Some(step) = self.step(chosen).filter(|_| chosen != expected) else {
            self.release().next_step_index = expected;
            return;
        };
        let is_reached = updated_after(step, workload) == self.release().replicas;
        let state = match is_reached && step.is_routed() {
            true => StepState::StepTrafficRouting,
            false => StepState::BeforeStepUpgrade,
        };
        self.go_to(chosen, state);
        self.touch();
    }

    /// Finds the step at which the release is after its plan has changed.
    pub(super) fn recompute_step(&mut self, workload: &Workload) -> Result<(), Halt> {
        let hash = strategy_hash(&self.rollout.spec.strategy);
        if self.release().rollout_hash == hash || self.release().current_step_state == StepState::Completed {
            return Ok(());
        }
        self.release().rollout_hash = hash;
        let reached = self.batch_target(workload)?;
        let (index, ready) =
            (self.release().current_step_index, self.release().current_step_state == StepState::StepReady);
        let covers =
            |index: &i32| self.step(*index).is_some_and(|step| updated_after(step, workload) >= reached);
        let found = [index].into_iter().chain(1..=self.last_step()).find(covers).unwrap_or(self.last_step());
        if found == self.next_step(index) {
            self.enter(StepState::StepReady);
        } else if !(ready && found == index) {
            // An approval that came with the change is not lost.
            self.release().next_step_index = found;
        }
        Ok(())
    }
}
