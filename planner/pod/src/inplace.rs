//! In-place update: a running Pod is changed to a new revision without being recreated
//! (docs/behaviour/in-place-update.md). Every workload uses it, under its own [`Rules`].
//!
//! ```text
//!   decide    two templates          -> what changes, or why that needs a new Pod
//!   start     a Pod and that change  -> the first writes
//!   refresh   a Pod                  -> the next write of an update in progress
//!   completed a Pod                  -> whether its containers run what they should
//! ```
//!
//! All progress is in the Pod's annotations, written together with what it is about. So a controller can
//! stop after any write, and another continues from the Pod as it is stored. Writes hold for one state of the
//! Pod; after a conflict the caller plans again on the newer one. An update takes three of them: the gate
//! turns false; the Pod; the gate turns true, together with the lifecycle state
//! ([`lifecycle::refresh`](crate::lifecycle::refresh)).
//!
//! Invariants, each with a property test: no container is changed twice by one update; containers change in
//! the order of their launch priority, each batch after the one before is ready; nothing is changed before
//! the grace period ends.

use std::time::Duration;

use api::conditions::IN_PLACE_UPDATE_READY;
use api::labels::LIFECYCLE_STATE;
use jiff::{SignedDuration, Timestamp};

use crate::lifecycle_state::State as LifecycleState;
use crate::observed::{Container, ContainerStatus, ObservedPod, Resources};
use crate::write::{PodWrite, Target};

mod batch;
mod completion;
mod decision;
pub mod environment;
mod go_json;
pub mod qos;
pub mod readiness;
pub mod reported;
mod resize;
mod restarts;
mod rules;
mod spec;
mod state;
pub mod template;
#[cfg(test)]
mod tests;
mod unfinished;

pub use completion::{Incomplete, completed};
pub use decision::{Options, Reason, decide};
pub use go_json::Seconds;
pub use qos::QosClass;
pub use resize::{Obstacle, ResizeProblem};
pub use rules::{Rules, SetsUpdating};
pub use spec::{MetadataPatch, ReferencedMetadata, UpdateSpec};
pub use state::{Batch, LastStatus, PreCheck, State, StateError, in_grace};
pub use template::{Operation, Template};

/// The first step of an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Started {
    /// What to write, in this order; each on the resource version that the one before returned.
    pub writes: Vec<PodWrite>,
    /// When to reconcile the Pod again, where a grace period begins.
    pub requeue: Option<Duration>,
}

/// The next step of an update in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Refresh {
    /// What to write, in this order; each on the resource version that the one before returned.
    pub writes: Vec<PodWrite>,
    /// When to reconcile the Pod again.
    pub requeue: Option<Duration>,
    /// Where the update is.
    pub progress: Progress,
}

/// Where the update of a Pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No update is in progress.
    Done,
    /// The containers need time.
    Waiting(Incomplete),
    /// The writes change more of the Pod.
    Advances,
}

/// Begins to change the Pod to `spec.revision` (docs/behaviour/in-place-update.md#starting-an-update).
///
/// Guarantees: the gate turns false before anything else changes; the Pod's new revision, its new
/// containers and the record of it are one write, so none is there without the others. What an update
/// before it has not come to yet is part of this one.
pub fn start(pod: &ObservedPod, spec: &UpdateSpec, rules: &Rules, now: Timestamp) -> Started {
    let mut spec = spec.clone();
    let mut state = State { revision: spec.revision.clone(), ..State::default() };
    unfinished::take_over(pod, rules, &mut spec, &mut state);
    let is_unnoticed = spec.changes_only_metadata();
    let mut writes = Vec::new();
    if must_become_not_ready(pod, &spec, rules) {
        let conditions = readiness::not_ready(pod, now);
        if !conditions.is_empty() {
            writes.push(PodWrite { conditions, ..PodWrite::to(Target::Status) });
        }
    }
    let grace = u64::try_from(spec.grace_seconds).ok().filter(|seconds| *seconds > 0 && !is_unnoticed);
    // Annotations hold whole seconds: rounded up, so that the grace period is never short.
    state.update_timestamp = Seconds(if grace.is_some() { whole_second_after(now) } else { now });
    state.update_env_from_metadata |= spec.update_env_from_metadata;
    state.update_images |= !spec.container_images.is_empty();
    state.update_resources |= !spec.container_resources.is_empty();
    let mut write = PodWrite::default();
    for (label, value) in rules.labels.labels(&spec.revision) {
        write.set_label(label, value);
    }
    if grace.is_some() {
        state::wait(pod, &spec, &mut write);
    } else {
        writes.extend(batch::apply(pod, spec, &mut state, rules, now, &mut write));
        state::stop_waiting(pod, &mut write);
    }
    state.record(pod, &mut write);
    let sets_updating = match rules.sets_updating {
        SetsUpdating::Always => true,
        SetsUpdating::IfPresent => pod.label(LIFECYCLE_STATE).is_some(),
        SetsUpdating::Never => false,
    };
    // Who is told before and after an update is told of each.
    let is_told = matches!(LifecycleState::of(pod), Some(state) if state != LifecycleState::Normal);
    if sets_updating && (is_told || !is_unnoticed) {
        LifecycleState::Updating.record(&mut write, now);
    }
    writes.push(write);
    Started { writes, requeue: grace.map(Duration::from_secs) }
}

/// A change of metadata alone leaves the Pod ready, and so does one of resources, unless it restarts a container.
fn must_become_not_ready(pod: &ObservedPod, spec: &UpdateSpec, rules: &Rules) -> bool {
    if !pod.has_readiness_gate(IN_PLACE_UPDATE_READY) || spec.changes_only_metadata() {
        return false;
    }
    if !(rules.vertical_scaling && spec.changes_only_resources()) {
        return true;
    }
    let restarts = |(name, change): (&String, &Resources)| {
        pod.container(name).is_some_and(|container| restarts_on(container, change))
    };
    spec.container_resources.iter().any(restarts)
}

fn restarts_on(container: &Container, change: &Resources) -> bool {
    container.resize_policy.iter().any(|policy| {
        let resource = &*policy.resource_name;
        &*policy.restart_policy == "RestartContainer"
            && (change.limits.get(resource).is_some() || change.requests.get(resource).is_some())
    })
}

/// Continues with the Pod's update: ends its grace period, changes its next batch of containers, or opens the
/// readiness gate when all is done (docs/behaviour/in-place-update.md#grace-period and
/// docs/behaviour/in-place-update.md#going-on-with-an-update). Called for every active Pod before anything
/// else is planned for it.
///
/// # Errors
/// Annotations that can't be read.
pub fn refresh(pod: &ObservedPod, rules: &Rules, now: Timestamp) -> Result<Refresh, StateError> {
    if let Some(spec) = state::waiting(pod)? {
        return end_grace(pod, spec, rules, now);
    }
    if let Some(state) = State::of(pod)? {
        if let Err(incomplete) = completion::batch_completed(pod, &state, rules) {
            return Ok(Refresh::waiting(incomplete));
        }
        if state.has_next() {
            return Ok(next_batch(pod, state, rules, now));
        }
    }
    let conditions: Vec<_> = readiness::ready(pod, now).into_iter().collect();
    let write = PodWrite { conditions, ..PodWrite::to(Target::Status) };
    let writes = if write.is_empty() { Vec::new() } else { vec![write] };
    Ok(Refresh { writes, requeue: None, progress: Progress::Done })
}

impl Refresh {
    /// There is nothing to do but to let the Pod serve again.
    pub fn opens_gate_only(&self) -> bool {
        let opens = |write: &PodWrite| {
            let conditions =
                write.conditions.iter().all(|condition| *condition.kind == *IN_PLACE_UPDATE_READY);
            conditions && write.labels.is_empty() && write.annotations.is_empty()
        };
        self.progress == Progress::Done && self.writes.iter().all(opens)
    }

    fn waiting(incomplete: Incomplete) -> Self {
        Self { writes: Vec::new(), requeue: None, progress: Progress::Waiting(incomplete) }
    }

    fn advancing(writes: Vec<PodWrite>) -> Self {
        Self { writes, requeue: None, progress: Progress::Advances }
    }
}

fn end_grace(
    pod: &ObservedPod,
    spec: UpdateSpec,
    rules: &Rules,
    now: Timestamp,
) -> Result<Refresh, StateError> {
    let mut write = PodWrite::default();
    state::stop_waiting(pod, &mut write);
    if !rules.labels.is_at(pod, &spec.revision) {
        // Somebody changed the Pod's revision; the ordinary update takes over.
        return Ok(Refresh::advancing(vec![write]));
    }
    let mut state = State::of(pod)?.ok_or(StateError::GraceWithoutState)?;
    let grace = SignedDuration::from_secs(spec.grace_seconds.into());
    let remaining = grace.saturating_sub(now.duration_since(state.update_timestamp.0));
    if remaining.is_positive() {
        let seconds = remaining.as_secs() + i64::from(remaining.subsec_nanos() > 0);
        let requeue = Some(Duration::from_secs(seconds.unsigned_abs()));
        return Ok(Refresh { requeue, ..Refresh::waiting(Incomplete::Grace) });
    }
    state.restart_counts = state.recorded_restarts(pod);
    let mut writes: Vec<PodWrite> =
        batch::apply(pod, spec, &mut state, rules, now, &mut write).into_iter().collect();
    state.record(pod, &mut write);
    writes.push(write);
    Ok(Refresh::advancing(writes))
}

fn next_batch(pod: &ObservedPod, mut state: State, rules: &Rules, now: Timestamp) -> Refresh {
    let required = state.pre_check_before_next.iter().flat_map(|check| &check.containers_required_ready);
    let is_past = |status: &ContainerStatus| status.ready || pod.has_ended_for_good(status);
    let ready = |name: &str| pod.container_status(name).is_some_and(is_past);
    if let Some(name) = required.into_iter().find(|name| !ready(name)) {
        return Refresh::waiting(Incomplete::NotReady(name.clone()));
    }
    let spec = state.take_next();
    state.restart_counts = state.recorded_restarts(pod);
    let mut write = PodWrite::default();
    let mut writes: Vec<PodWrite> =
        batch::apply(pod, spec, &mut state, rules, now, &mut write).into_iter().collect();
    state.record(pod, &mut write);
    writes.push(write);
    Refresh::advancing(writes)
}

/// The first whole second that is not before `time`.
fn whole_second_after(time: Timestamp) -> Timestamp {
    let seconds = time.as_second() + i64::from(time.subsec_nanosecond() > 0);
    Timestamp::from_second(seconds).unwrap_or(time)
}
