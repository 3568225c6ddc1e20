//! What a node does about ContainerRecreateRequests (docs/behaviour/restarts.md#the-node-agent). One write or one stop
//! at a time: after each the next step is found from what there is then, so that a crash anywhere leaves a state from
//! which the request continues.

use std::time::Duration;

use api::annotations::CRR_PRE_STOP_SLEEP;
use api::kinds::Time;
use api::kinds::containerrecreaterequest::{
    Container, ContainerRecreateRequest, ContainerRecreateState, FailurePolicy, Phase, Status,
};
use api::kinds::shared::ConditionStatus;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::container::{Condition, RuntimeContainer, newest, split_id};
use super::stop::{Hook, hook, pause};
use kinds::containerrecreaterequest::step::is_over;
use kinds::workload::status::merge_patch;
use values::moment::until;

#[cfg(test)]
mod tests;

/// The condition from which the grace period of a Pod that is not ready counts.
const PRE_RECREATE_GRACE: &str = "PreRecreateGrace";
/// Later than the end of the grace period, so that it is over for everybody.
const AFTER_GRACE: Duration = Duration::from_millis(100);
/// Times are compared by "longer than".
const INSTANT: Duration = Duration::from_millis(1);
/// How long a container has to stop where nothing is said.
const GRACE: Duration = Duration::from_secs(30);

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Merge-patch the status.
    Status(String),
    /// Stop a container, and then write what came of it.
    Stop(Box<Stop>),
    /// Nothing, until something changes or, if there is one, this time has passed.
    Wait(Option<Duration>),
}

/// How a request continues.
#[derive(Clone, Debug, PartialEq)]
pub enum Start<'r> {
    /// By this step.
    Step(Step),
    /// By reading the containers of its Pod in this runtime: see [`go_on`].
    Look(&'r str),
}

/// A container that is to be stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    /// Its name.
    pub name: String,
    /// Its ID in the runtime.
    pub id: String,
    /// How long its hook and its end may take together.
    pub grace: Duration,
    /// What runs before.
    pub hook: Option<Hook>,
    states: Vec<ContainerRecreateState>,
}

/// The requests for one Pod, of which one at a time is worked on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn<'r> {
    /// The one whose turn it is.
    pub current: Option<&'r ContainerRecreateRequest>,
    /// Those that have to get the answer that they wait.
    pub waiting: Vec<&'r ContainerRecreateRequest>,
}

/// Whose turn it is.
pub fn turn<'r>(requests: impl IntoIterator<Item = &'r ContainerRecreateRequest>) -> Turn<'r> {
    let mut sorted: Vec<&ContainerRecreateRequest> =
        requests.into_iter().filter(|request| !is_over(request)).collect();
    let age = |request: &ContainerRecreateRequest| {
        request.metadata.creation_timestamp.as_ref().and_then(Time::timestamp)
    };
    sorted
        .sort_by_key(|request| (weight(&request.status.phase), age(request), request.metadata.name.clone()));
    let mut sorted = sorted.into_iter();
    Turn {
        current: sorted.next(),
        waiting: sorted.filter(|later| later.status.phase == Phase::Unset).collect(),
    }
}

fn weight(phase: &Phase) -> u8 {
    match phase {
        Phase::Completed => 1,
        Phase::Recreating => 2,
        Phase::Pending => 3,
        _ => 4,
    }
}

/// The write that marks a request as waiting for another one.
pub fn wait(request: &ContainerRecreateRequest) -> String {
    let mut status = request.status.clone();
    status.phase = Phase::Pending;
    patch(request, &status)
}

/// How the request continues whose turn it is; `served` are the names of the runtimes.
pub fn start<'r>(request: &'r ContainerRecreateRequest, served: &[&str], now: Timestamp) -> Start<'r> {
    if is_over(request) {
        return Start::Step(Step::Wait(None));
    }
    if request.status.phase != Phase::Recreating {
        let mut status = request.status.clone();
        status.phase = Phase::Recreating;
        return Start::Step(Step::Status(patch(request, &status)));
    }
    if let Some(seconds) = request.spec.strategy.unready_grace_period_seconds {
        let Some(since) = not_ready_since(&request.status) else { return Start::Step(Step::Wait(None)) };
        if let Some(left) = until(later(since, seconds), now) {
            return Start::Step(Step::Wait(Some(left.saturating_add(AFTER_GRACE))));
        }
    }
    match runtime(request, served) {
        Ok(runtime) => Start::Look(runtime),
        Err(why) => Start::Step(complete(request, &format!("failed to find runtime service: {why}"), now)),
    }
}

fn not_ready_since(status: &Status) -> Option<Timestamp> {
    let mut conditions = status.conditions.iter();
    let condition =
        conditions.find(|known| known.kind == PRE_RECREATE_GRACE && known.status == ConditionStatus::True)?;
    condition.last_transition_time.timestamp()
}

/// The runtime that all containers of a request are in.
fn runtime<'r>(request: &'r ContainerRecreateRequest, served: &[&str]) -> Result<&'r str, String> {
    let mut found: Option<&str> = None;
    for Container { name, status_context, .. } in &request.spec.containers {
        let id = status_context.as_ref().and_then(|context| split_id(&context.container_id));
        let (runtime, _) = id.ok_or_else(|| format!("container {name} has no ID"))?;
        if found.is_some_and(|other| other != runtime) {
            return Err("its containers are in several runtimes".to_owned());
        }
        found = Some(runtime);
    }
    let found = found.ok_or_else(|| "it names no container".to_owned())?;
    if served.contains(&found) { Ok(found) } else { Err(format!("there is no runtime {found}")) }
}

/// How the request continues that is being worked on, with the containers of its Pod.
pub fn go_on(request: &ContainerRecreateRequest, containers: &[RuntimeContainer], now: Timestamp) -> Step {
    let mut rest = None;
    let mut states: Vec<ContainerRecreateState> = request
        .spec
        .containers
        .iter()
        .map(|container| state(request, container, containers, now, &mut rest))
        .collect();
    if states != request.status.container_recreate_states {
        return states_step(request, states);
    }
    let ignores = request.spec.strategy.failure_policy == Some(FailurePolicy::Ignore);
    let mut done = 0;
    for (position, container) in request.spec.containers.iter().enumerate() {
        let Some(known) = states.get_mut(position) else { break };
        match known.phase {
            Phase::Succeeded => done += 1,
            Phase::Failed if ignores => done += 1,
            Phase::Failed => return complete(request, "", now),
            Phase::Recreating => {
                known.is_killed = true;
                if request.spec.strategy.ordered_recreate {
                    break;
                }
            }
            _ => match newest(containers, &container.name) {
                Some(newest) => return Step::Stop(Box::new(stop(request, container, newest, states))),
                None => break,
            },
        }
    }
    if states != request.status.container_recreate_states {
        return states_step(request, states);
    }
    if done == states.len() { complete(request, "", now) } else { Step::Wait(rest) }
}

/// How far a container is. `rest` becomes the time until one that is back has been up for long enough.
fn state(
    request: &ContainerRecreateRequest,
    container: &Container,
    containers: &[RuntimeContainer],
    now: Timestamp,
    rest: &mut Option<Duration>,
) -> ContainerRecreateState {
    let mut known = request.status.container_recreate_states.iter();
    let before = known.find(|state| state.name == container.name);
    if let Some(ended) = before.filter(|state| matches!(state.phase, Phase::Succeeded | Phase::Failed)) {
        return ended.clone();
    }
    let is_killed = before.is_some_and(|state| state.is_killed);
    let reported = |phase, message: &str| ContainerRecreateState {
        is_killed,
        message: message.to_owned(),
        name: container.name.clone(),
        phase,
    };
    let Some(newest) = newest(containers, &container.name) else {
        return reported(Phase::Pending, "not found container on Node");
    };
    if newest.condition == Condition::Exited {
        return reported(Phase::Recreating, "");
    }
    let is_forced = request.spec.strategy.force_recreate && !is_killed;
    if is_forced || !is_another(container, newest) {
        return reported(Phase::Pending, "");
    }
    let Some(started) = newest.started.filter(|_| is_ready(request, container, newest)) else {
        return reported(Phase::Recreating, "");
    };
    let least = request.spec.strategy.min_started_seconds.unwrap_or_default();
    let back = later(started, least.into());
    if now > back {
        return reported(Phase::Succeeded, "");
    }
    let left = until(back, now).unwrap_or_default().saturating_add(INSTANT);
    *rest = Some(rest.map_or(left, |known| known.min(left)));
    reported(Phase::Recreating, "")
}

/// Whether a container is another one than when the request was made.
fn is_another(container: &Container, newest: &RuntimeContainer) -> bool {
    let Some(context) = &container.status_context else { return false };
    let before = split_id(&context.container_id).map(|(_, id)| id);
    before != Some(newest.id.as_str()) || newest.restart_count() > context.restart_count
}

/// Whether the controller has observed this very container ready.
fn is_ready(request: &ContainerRecreateRequest, container: &Container, newest: &RuntimeContainer) -> bool {
    request.status.container_status_snapshot.iter().any(|observed| {
        let id = split_id(&observed.container_id).map(|(_, id)| id);
        observed.ready && observed.name == container.name && id == Some(newest.id.as_str())
    })
}

fn stop(
    request: &ContainerRecreateRequest,
    container: &Container,
    newest: &RuntimeContainer,
    states: Vec<ContainerRecreateState>,
) -> Stop {
    let pauses = request.metadata.annotations.get(CRR_PRE_STOP_SLEEP);
    let handler = container.pre_stop.as_ref().and_then(|handler| hook(handler, &container.ports));
    let grace = request.spec.strategy.termination_grace_period_seconds;
    Stop {
        name: container.name.clone(),
        id: newest.id.clone(),
        grace: grace.map_or(GRACE, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default())),
        hook: handler.or_else(|| pauses.and_then(|pauses| pause(pauses, &container.name))),
        states,
    }
}

impl Stop {
    /// The write after the stop, whatever has become of the request meanwhile: nobody else writes these states.
    pub fn ended(mut self, request: &ContainerRecreateRequest, result: Result<(), &str>) -> String {
        for state in self.states.iter_mut().filter(|state| state.name == self.name) {
            match result {
                Ok(()) => {
                    state.is_killed = true;
                    state.phase = Phase::Recreating;
                }
                Err(error) => {
                    state.phase = Phase::Failed;
                    state.message = format!("kill container error: {error}");
                }
            }
        }
        let metadata = json!({"uid": request.metadata.uid});
        json!({"metadata": metadata, "status": {"containerRecreateStates": self.states}}).to_string()
    }
}

fn states_step(request: &ContainerRecreateRequest, states: Vec<ContainerRecreateState>) -> Step {
    let status = Status { container_recreate_states: states, ..request.status.clone() };
    Step::Status(patch(request, &status))
}

fn complete(request: &ContainerRecreateRequest, message: &str, now: Timestamp) -> Step {
    let mut status = request.status.clone();
    status.phase = Phase::Completed;
    status.completion_time = Some(now.into());
    message.clone_into(&mut status.message);
    Step::Status(patch(request, &status))
}

/// The schema requires the phase.
fn patch(request: &ContainerRecreateRequest, status: &Status) -> String {
    let metadata = &request.metadata;
    merge_patch((&metadata.uid, &metadata.resource_version), &request.status, status, &["phase"])
}

fn later(since: Timestamp, seconds: i64) -> Timestamp {
    since.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}
