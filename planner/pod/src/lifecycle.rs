//! The life of a workload's Pod, and the hooks with which other programs hold it at its turns
//! (docs/behaviour/lifecycle.md#lifecycle-hooks and docs/behaviour/lifecycle.md#deletion-by-label).
//!
//! ```text
//!   PreparingNormal -> Normal -> PreparingUpdate -> Updating -> Updated -> Normal
//!                                any state -> PreparingDelete -> deleted
//! ```
//!
//! A hook is a set of labels and finalizers. It blocks a delete, and the start of an update, while any of
//! them is on the Pod; it blocks a new Pod, and the end of an update, until all of them are.

use api::kinds::shared::{Lifecycle, LifecycleHook};
use api::labels::{LIFECYCLE_STATE, SPECIFIED_DELETE};
use jiff::Timestamp;

use crate::inplace::{self, Progress, Refresh, Rules, StateError};
use crate::kruise_pod_ready::{self, NotReadyKey};
use crate::observed::{ObservedPod, PodMetadata};
use crate::write::{PodWrite, Target};

pub use crate::lifecycle_state::State;

#[cfg(test)]
mod tests;

/// The program that [`NotReadyKey`]s of hooks name.
const USER_AGENT: &str = "Lifecycle";
const PRE_DELETE_KEY: &str = "preDeleteHook";
const PRE_UPDATE_KEY: &str = "preUpdateHook";

/// The state lets the Pod count as available: there is none, or it is `Normal`.
pub fn is_normal(pod: &ObservedPod) -> bool {
    matches!(State::of(pod), None | Some(State::Normal))
}

/// Any label or finalizer of the hook is on the Pod: deletes and updates wait.
pub fn hooked(hook: Option<&LifecycleHook>, pod: &PodMetadata) -> bool {
    hook.is_some_and(|hook| {
        hook.finalizers_handler.iter().any(|finalizer| has_finalizer(pod, finalizer))
            || hook.labels_handler.iter().any(|(key, value)| pod.labels.get(key) == Some(value))
    })
}

/// Every label and finalizer of the hook is on the Pod. There is none to satisfy in an empty hook, and an
/// absent one is never satisfied.
pub fn all_hooked(hook: Option<&LifecycleHook>, pod: &PodMetadata) -> bool {
    hook.is_some_and(|hook| {
        hook.finalizers_handler.iter().all(|finalizer| has_finalizer(pod, finalizer))
            && hook.labels_handler.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    })
}

fn has_finalizer(pod: &PodMetadata, finalizer: &str) -> bool {
    pod.finalizers.iter().any(|known| **known == *finalizer)
}

/// How the kinds of workloads differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// A new Pod without hook `preNormal` stays `PreparingNormal` until it is on a node.
    CloneSet,
    /// It does not.
    StatefulSet,
}

/// What precedes the update of a chosen Pod (docs/behaviour/lifecycle.md#lifecycle-states).
#[derive(Clone, Debug, PartialEq)]
pub enum BeforeUpdate {
    /// Nothing: change it now.
    Update,
    /// Its hook is notified first, by these writes in order.
    Prepare(Vec<PodWrite>),
    /// Its hook still holds it.
    Wait,
    /// It must not be updated in this state, which is named.
    Refuse(String),
}

/// Whether a Pod that was chosen for an update in place can be updated now.
pub fn before_update(pod: &ObservedPod, hooks: &Lifecycle, now: Timestamp) -> BeforeUpdate {
    let hook = hooks.in_place_update.as_ref();
    let holds = hooked(hook, &pod.metadata);
    match State::of(pod) {
        None | Some(State::PreparingNormal | State::Normal) if holds => {
            BeforeUpdate::Prepare(enter(pod, State::PreparingUpdate, marks(hook), now))
        }
        Some(State::Updated) => BeforeUpdate::Prepare(prepare_again(pod, hook, now)),
        Some(State::PreparingUpdate) if holds => BeforeUpdate::Wait,
        None | Some(State::PreparingNormal | State::Normal | State::PreparingUpdate | State::Updating) => {
            BeforeUpdate::Update
        }
        Some(State::PreparingDelete | State::Unknown) => {
            BeforeUpdate::Refuse(pod.label(LIFECYCLE_STATE).unwrap_or_default().to_owned())
        }
    }
}

/// Puts the hook back on a Pod that was updated, so that it can be notified of the next update.
fn prepare_again(pod: &ObservedPod, hook: Option<&LifecycleHook>, now: Timestamp) -> Vec<PodWrite> {
    let mut writes = enter(pod, State::PreparingUpdate, marks(hook), now);
    let Some(hook) = hook else { return writes };
    let finalizers: Vec<String> = hook
        .finalizers_handler
        .iter()
        .filter(|finalizer| !has_finalizer(&pod.metadata, finalizer))
        .cloned()
        .collect();
    if let Some(write) = writes.last_mut() {
        for (key, value) in &hook.labels_handler {
            write.set_label(key, value);
        }
        if !finalizers.is_empty() && write.target == Target::Status {
            // Finalizers belong to the Pod itself; what makes it not ready comes first.
            let conditions = std::mem::take(&mut write.conditions);
            write.target = Target::Pod;
            write.finalizers = finalizers;
            writes.insert(0, PodWrite { conditions, ..PodWrite::to(Target::Status) });
        } else {
            write.finalizers = finalizers;
        }
    }
    writes
}

/// What precedes the deletion of a Pod by its workload: `None` if nothing does, else the writes, in
/// order, that notify its hook; there are none where it was notified.
pub fn before_delete(pod: &ObservedPod, hooks: &Lifecycle, now: Timestamp) -> Option<Vec<PodWrite>> {
    let hook = hooks.pre_delete.as_ref();
    hooked(hook, &pod.metadata).then(|| enter(pod, State::PreparingDelete, marks(hook), now))
}

/// The hook wants the Pod to be not ready while it holds it.
fn marks(hook: Option<&LifecycleHook>) -> bool {
    hook.is_some_and(|hook| hook.mark_pod_not_ready)
}

/// The state to which a Pod changes by itself, if to any (docs/behaviour/lifecycle.md#lifecycle-states).
/// `updated` says that the Pod is at the update revision; `completed` that no update of its containers is
/// in progress.
pub fn next_state(
    pod: &ObservedPod,
    hooks: &Lifecycle,
    flavour: Flavour,
    updated: bool,
    completed: bool,
) -> Option<State> {
    let after_update = || match &hooks.in_place_update {
        Some(hook) if !all_hooked(Some(hook), &pod.metadata) => State::Updated,
        _ => State::Normal,
    };
    let state = State::of(pod)?;
    let next = match state {
        State::PreparingNormal => match &hooks.pre_normal {
            None if flavour == Flavour::CloneSet && pod.spec.node_name.is_empty() => state,
            Some(hook) if !all_hooked(Some(hook), &pod.metadata) => state,
            _ => State::Normal,
        },
        // The template was rolled back before the hook let go.
        State::PreparingUpdate if updated => after_update(),
        State::Updating if completed => after_update(),
        State::Updated => after_update(),
        State::PreparingUpdate
        | State::Updating
        | State::Normal
        | State::PreparingDelete
        | State::Unknown => state,
    };
    (next != state).then_some(next)
}

/// The writes, in order, with which the Pod enters `state` (docs/behaviour/lifecycle.md#writing-a-state);
/// none where it is there and everything is done. `mark_not_ready` is the setting of the hook that the state
/// belongs to.
pub fn enter(pod: &ObservedPod, state: State, mark_not_ready: bool, now: Timestamp) -> Vec<PodWrite> {
    let mut write = PodWrite::default();
    let key = |key| NotReadyKey::new(USER_AGENT, key);
    write.conditions = match state {
        State::PreparingDelete if mark_not_ready => kruise_pod_ready::added(pod, &key(PRE_DELETE_KEY), now),
        State::PreparingUpdate if mark_not_ready => kruise_pod_ready::added(pod, &key(PRE_UPDATE_KEY), now),
        // Whatever the hooks say by now: a key that stayed would hold the Pod back forever.
        State::PreparingNormal | State::Updated | State::Normal => {
            let keys = [key(PRE_UPDATE_KEY), key(PRE_DELETE_KEY)];
            kruise_pod_ready::all_removed(pod, &keys, now).into_iter().collect()
        }
        State::Updating | State::PreparingUpdate | State::PreparingDelete | State::Unknown => Vec::new(),
    };
    if State::of(pod) != Some(state) {
        state.record(&mut write, now);
    }
    if !write.conditions.is_empty() {
        // Labels and annotations can be written there too, so that one write does it all.
        write.target = Target::Status;
    }
    if write.is_empty() { Vec::new() } else { vec![write] }
}

/// Continues with the Pod's update in place ([`inplace::refresh`]) and with its life. All that is due is written in
/// one write: for a new Pod that was put on a node, the first conditions of both readiness gates and its state;
/// for one whose update is completed, the readiness gate, the state and what hooks left behind.
///
/// # Errors
/// Annotations that can't be read.
pub fn refresh(
    pod: &ObservedPod,
    hooks: &Lifecycle,
    flavour: Flavour,
    rules: &Rules,
    updated: bool,
    now: Timestamp,
) -> Result<Refresh, StateError> {
    let mut refresh = inplace::refresh(pod, rules, now)?;
    if refresh.progress == Progress::Advances {
        return Ok(refresh);
    }
    let completed = refresh.progress == Progress::Done;
    let next = next_state(pod, hooks, flavour, updated, completed);
    // A key that another version left behind is removed without a change of the state, too.
    let settled = || State::of(pod).filter(|state| matches!(state, State::Normal | State::Updated));
    let entered = next.or_else(settled).map(|state| enter(pod, state, false, now));
    // A Pod that is not on a node can't become ready: its first conditions need no write of their own.
    let first = kruise_pod_ready::first(pod, now).filter(|_| !pod.spec.node_name.is_empty());
    let first = first.map(|first| PodWrite { conditions: vec![first], ..PodWrite::to(Target::Status) });
    for entered in first.into_iter().chain(entered.into_iter().flatten()) {
        match refresh.writes.last_mut().filter(|write| write.target == Target::Status) {
            Some(write) => {
                write.conditions.extend(entered.conditions);
                write.labels.extend(entered.labels);
                write.annotations.extend(entered.annotations);
            }
            None => refresh.writes.push(entered),
        }
    }
    Ok(refresh)
}

/// The Pod is to be deleted and not kept: it has the label, with any value, or is named in `podsToDelete`
/// (docs/behaviour/lifecycle.md#deletion-by-label).
pub fn is_specified_delete(pod: &ObservedPod, pods_to_delete: &[String]) -> bool {
    pod.label(SPECIFIED_DELETE).is_some() || pods_to_delete.iter().any(|name| **name == *pod.metadata.name)
}

/// The write that has the Pod deleted by its workload; `None` where the label is there.
pub fn specify_delete(pod: &ObservedPod) -> Option<PodWrite> {
    let mut write = PodWrite::default();
    write.set_label(SPECIFIED_DELETE, "true");
    pod.label(SPECIFIED_DELETE).is_none().then_some(write)
}
