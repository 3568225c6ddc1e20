//! One look at a Rollout: what it is about, and what is planned so far.

use std::time::Duration;

use api::kinds::rollout::{
    API_VERSION, Condition, ConditionType, KIND, Phase, Reason, ReleaseStatus, Rollout, Status, Step,
    StepState, StrategyKind,
};
use api::kinds::shared::ConditionStatus;
use kinds::workload::owner::Owner;
use serde_json::{Value, json};
use values::event::{Event, normal};
use values::moment::Moment;

use crate::object::ObjectName;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::view::{Unread, View};
use crate::workload::{Style, Workload};
use crate::write::Write;

/// Why a pass ends.
#[derive(Debug)]
pub(super) enum Halt {
    /// It needs what has not been read.
    Unread(Unread),
    /// Something must happen first; the status says what.
    Wait,
}

impl From<Unread> for Halt {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

/// One look at a Rollout. It goes as far as it gets without waiting.
pub(super) struct Pass<'a> {
    pub(super) rollout: &'a Rollout,
    pub(super) kind: StrategyKind,
    pub(super) style: Style,
    pub(super) workload: Option<&'a Workload>,
    pub(super) view: &'a View,
    pub(super) settings: &'a Settings,
    pub(super) moment: &'a Moment,
    pub(super) status: Status,
    pub(super) writes: Vec<Write>,
    pub(super) events: Vec<Event>,
    pub(super) again: Option<Duration>,
    /// The workload no longer says that a release is running, once the writes have succeeded.
    pub(super) hands_back: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        rollout: &'a Rollout,
        workload: Option<&'a Workload>,
        view: &'a View,
        settings: &'a Settings,
        moment: &'a Moment,
    ) -> Self {
        let strategy = &rollout.spec.strategy;
        Self {
            rollout,
            kind: strategy.kind().unwrap_or(StrategyKind::Canary),
            style: Style::of(strategy, &rollout.spec.workload_ref),
            workload,
            view,
            settings,
            moment,
            status: rollout.status.clone(),
            writes: Vec::new(),
            events: Vec::new(),
            again: None,
            hands_back: false,
        }
    }

    /// What is planned. The status says the same everywhere.
    pub(super) fn finish(mut self) -> Plan<Status> {
        let status = &mut self.status;
        status.observed_generation = self.rollout.metadata.generation;
        match self.kind {
            StrategyKind::Canary => status.blue_green_status = None,
            StrategyKind::BlueGreen => status.canary_status = None,
        }
        let message = status.message.clone();
        if let Some(release) = status.release_mut(self.kind) {
            release.message.clone_from(&message);
            let (index, state) = (release.current_step_index, release.current_step_state.clone());
            (status.current_step_index, status.current_step_state) = (index, state);
        }
        let progressing = |condition: &&mut Condition| condition.kind == ConditionType::Progressing;
        let progressing = status.conditions.iter_mut().find(progressing);
        if let Some(condition) = progressing.filter(|_| status.phase == Phase::Progressing) {
            condition.message = message;
        }
        Plan { writes: self.writes, status: self.status, events: self.events, again: self.again }
    }

    /// The name of an object in the Rollout's namespace.
    pub(super) fn named(&self, api_version: &str, kind: &str, name: &str) -> ObjectName {
        ObjectName::new(api_version, kind, &self.rollout.metadata.namespace, name)
    }

    /// The workload, where it says that a release of this Rollout is running. One of a Rollout that is gone is taken over.
    pub(super) fn released_workload(&self) -> Result<Option<&'a Workload>, Unread> {
        let holder = self.workload.and_then(|workload| workload.in_progressing.as_deref());
        let Some(holder) = holder else { return Ok(None) };
        let is_ours = holder.is_empty()
            || holder == self.rollout.metadata.name
            || self.view.object(&self.named(API_VERSION, KIND, holder))?.is_none();
        Ok(self.workload.filter(|_| is_ours))
    }

    /// The owner reference by which objects belong to the Rollout.
    pub(super) fn owner(&self) -> Value {
        json!(Owner::of(API_VERSION, KIND, &self.rollout.metadata))
    }

    /// The release; a new one where none has been seen.
    pub(super) fn release(&mut self) -> &mut ReleaseStatus {
        self.status.release_mut(self.kind).get_or_insert_default()
    }

    pub(super) fn steps(&self) -> &'a [Step] {
        self.rollout.spec.strategy.steps()
    }

    /// The number of steps.
    pub(super) fn last_step(&self) -> i32 {
        i32::try_from(self.steps().len()).unwrap_or(i32::MAX)
    }

    /// The step of a number, from 1.
    pub(super) fn step(&self, index: i32) -> Option<&'a Step> {
        self.steps().get(usize::try_from(index).ok()?.checked_sub(1)?)
    }

    /// The number of the step that comes after this one.
    pub(super) fn next_step(&self, index: i32) -> i32 {
        if index < self.last_step() { index.saturating_add(1) } else { -1 }
    }

    /// The release gets further: to this state of its step.
    pub(super) fn enter(&mut self, state: StepState) {
        self.release().current_step_state = state;
        self.touch();
    }

    /// The release got further now.
    pub(super) fn touch(&mut self) {
        let now = self.moment.now;
        self.release().last_update_time = Some(now.into());
    }

    /// Says what the Rollout does.
    pub(super) fn say(&mut self, message: impl Into<String>) {
        self.status.message = message.into();
    }

    /// Ends the pass: something must happen first.
    pub(super) fn wait(&mut self, message: impl Into<String>) -> Halt {
        self.say(message);
        Halt::Wait
    }

    /// The same, where no change of an object will tell.
    pub(super) fn wait_for(&mut self, time: Duration, message: impl Into<String>) -> Halt {
        self.look_again(time);
        self.wait(message)
    }

    /// Looks again at the latest after a time.
    pub(super) fn look_again(&mut self, time: Duration) {
        self.again = Some(self.again.map_or(time, |again| again.min(time)));
    }

    /// Reports an Event about the release.
    pub(super) fn report(&mut self, message: String) {
        self.events.push(normal("Progressing", message));
    }

    /// Why condition `Progressing` has its status.
    pub(super) fn reason(&self) -> Reason {
        let condition = self.status.condition(&ConditionType::Progressing);
        condition.map(|condition| condition.reason.clone()).unwrap_or_default()
    }

    /// Sets a condition.
    pub(super) fn set_condition(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) {
        let now = self.moment.now;
        let known = self.status.condition(&kind);
        let (mut updated, mut changed) = (Some(now.into()), Some(now.into()));
        if let Some(known) = known.filter(|known| known.status == status) {
            changed.clone_from(&known.last_transition_time);
            if known.reason == reason {
                updated.clone_from(&known.last_update_time);
            }
        }
        let message = message.into();
        let (last_update_time, last_transition_time) = (updated, changed);
        let condition = Condition { last_transition_time, last_update_time, message, reason, status, kind };
        match self.status.conditions.iter_mut().find(|known| known.kind == condition.kind) {
            Some(known) => *known = condition,
            None => self.status.conditions.push(condition),
        }
    }

    /// Removes a condition.
    pub(super) fn drop_condition(&mut self, kind: &ConditionType) {
        self.status.conditions.retain(|condition| condition.kind != *kind);
    }
}
