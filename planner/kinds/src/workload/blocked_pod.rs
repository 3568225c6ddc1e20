//! Why a Pod is not where it belongs: what its update, its hooks or its containers wait for.

use std::collections::BTreeMap;

use api::annotations::LIFECYCLE_TIMESTAMP;
use api::kinds::Time;
use api::kinds::shared::{Lifecycle, LifecycleHook};
use jiff::Timestamp;

use super::explanation::Blocker;
use super::in_place::UpdateStep;
use super::kind::Workload;
use super::member::Member;
use super::revision::StoredRevision;
use super::snapshot::{Refusal, Snapshot};
use pod::inplace::{Incomplete, Obstacle};
use pod::lifecycle::State;
use pod::observed::{ObservedPod, PodCondition};

/// The Pods of one workload, and what holds them back.
#[derive(Clone, Copy, Debug)]
pub struct BlockedPods<'w> {
    /// The workload's kind.
    pub kind: &'w str,
    /// The hooks of its Pods.
    pub hooks: &'w Lifecycle,
    /// What the update step comes to.
    pub step: &'w UpdateStep,
    /// Pods whose update was refused a short time ago, by UID.
    pub held: &'w BTreeMap<Box<str>, Refusal>,
    /// The update revision.
    pub target: &'w StoredRevision,
}

impl<'w> BlockedPods<'w> {
    /// Those of the workload of this snapshot.
    pub(crate) fn of<W: Workload>(
        snapshot: &Snapshot<'w, W>,
        hooks: &'w Lifecycle,
        step: &'w UpdateStep,
        target: &'w StoredRevision,
    ) -> Self {
        Self { kind: W::KIND, hooks, step, held: snapshot.held, target }
    }

    /// Why this Pod is not where it belongs. A Pod that is ready may wait for `budget`.
    pub fn blocker(&self, member: &Member<'_>, budget: impl FnOnce() -> Option<Blocker>) -> Option<Blocker> {
        let (pod, hooks) = (member.pod, self.hooks);
        let since = entered(pod);
        let blocked = |reason, (message, remedy): (String, String), since| {
            Some(Blocker { pod: member.name().to_owned(), reason, message, remedy, since })
        };
        if let Some(reason) = self.step.impossible.get(member.name()) {
            let message = format!("can't be updated in place: {reason}");
            let remedy = "take the change back, delete the Pod, or allow podUpdatePolicy InPlaceIfPossible";
            let since = self.target.metadata.creation_timestamp.as_ref().and_then(Time::timestamp);
            return blocked("InPlaceImpossible", (message, remedy.to_owned()), since);
        }
        if let Some(refusal) = self.held.get(&pod.metadata.uid) {
            let message = format!("is not updated: the API server refuses it: {}", refusal.message);
            let remedy =
                format!("correct the {} or what refuses it; it is tried again every few minutes", self.kind);
            return blocked("Refused", (message, remedy), Some(refusal.since));
        }
        if let Some(Incomplete::Resize(problem)) = self.step.incomplete.get(member.name()) {
            let (reason, remedy) = match problem.obstacle {
                Obstacle::Infeasible => (
                    "ResizeInfeasible",
                    "delete the Pod, so that it comes up on another node, or ask for less",
                ),
                Obstacle::Deferred => ("ResizeDeferred", "it goes on as soon as its node has room"),
                Obstacle::Error => ("ResizeError", "the kubelet tries again; see the Events of the Pod"),
            };
            let message = format!("is being updated: {problem}");
            return blocked(reason, (message, remedy.to_owned()), problem.since);
        }
        match member.state {
            Some(State::PreparingDelete) => {
                return blocked("PreDeleteHook", held_by(hooks.pre_delete.as_ref(), pod, "preDelete"), since);
            }
            Some(State::PreparingUpdate) => {
                let texts = held_by(hooks.in_place_update.as_ref(), pod, "inPlaceUpdate");
                return blocked("InPlaceUpdateHook", texts, since);
            }
            Some(State::Updated) => {
                let texts = lacks(hooks.in_place_update.as_ref(), pod, "inPlaceUpdate");
                return blocked("InPlaceUpdateHook", texts, since);
            }
            Some(State::Updating) => {
                let incomplete = self.step.incomplete.get(member.name())?;
                let (state, remedy) = containers(pod);
                return blocked(
                    "Updating",
                    (format!("is being updated: {incomplete}{state}"), remedy),
                    since,
                );
            }
            Some(State::PreparingNormal) if hooks.pre_normal.is_some() && member.is_ready => {
                return blocked("PreNormalHook", lacks(hooks.pre_normal.as_ref(), pod, "preNormal"), since);
            }
            _ => {}
        }
        if !member.is_ready {
            let (reason, message, remedy) = not_ready(pod);
            return blocked(reason, (message, remedy), not_ready_since(pod));
        }
        budget().or_else(|| {
            let available_at = member.available_at?;
            let message = format!("is ready, and available from {}", values::moment::rfc3339(available_at));
            blocked("MinReadySeconds", (message, "it needs minReadySeconds".to_owned()), Some(available_at))
        })
    }
}

/// When the Pod entered its lifecycle state.
fn entered(pod: &ObservedPod) -> Option<Timestamp> {
    pod.annotation(LIFECYCLE_TIMESTAMP).and_then(|time| time.parse().ok())
}

/// Since when the Pod is not ready.
pub(crate) fn not_ready_since(pod: &ObservedPod) -> Option<Timestamp> {
    let ready = pod.condition("Ready").and_then(PodCondition::since);
    ready.or(pod.metadata.created())
}

/// The hook's labels and finalizers that hold the Pod.
fn held_by(hook: Option<&LifecycleHook>, pod: &ObservedPod, name: &str) -> (String, String) {
    let parts = parts(hook, pod, true);
    let message = format!("is held by hook {name}");
    if parts.is_empty() {
        return (message, "it goes on with the next look at it".to_owned());
    }
    (message, format!("remove {} from it", parts.join(", ")))
}

/// The hook's labels and finalizers that the Pod waits for.
fn lacks(hook: Option<&LifecycleHook>, pod: &ObservedPod, name: &str) -> (String, String) {
    let parts = parts(hook, pod, false);
    let message = format!("waits for hook {name}");
    if parts.is_empty() {
        return (message, "it goes on with the next look at it".to_owned());
    }
    (message, format!("put {} on it", parts.join(", ")))
}

fn parts(hook: Option<&LifecycleHook>, pod: &ObservedPod, present: bool) -> Vec<String> {
    let Some(hook) = hook else { return Vec::new() };
    let labels = hook.labels_handler.iter();
    let labels = labels.filter(|(key, value)| (pod.label(key) == Some(value)) == present);
    let labels = labels.map(|(key, value)| format!("label {key}={value}"));
    let finalizers = hook.finalizers_handler.iter();
    let has = |name: &str| pod.metadata.finalizers.iter().any(|known| **known == *name);
    let finalizers = finalizers.filter(|name| has(name) == present).map(|name| format!("finalizer {name}"));
    labels.chain(finalizers).collect()
}

/// Why the Pod is not ready.
fn not_ready(pod: &ObservedPod) -> (&'static str, String, String) {
    if pod.spec.node_name.is_empty() {
        let scheduled = pod.condition("PodScheduled");
        let why = scheduled.map_or("", |condition| &condition.message);
        let message =
            if why.is_empty() { "has no node yet".to_owned() } else { format!("has no node: {why}") };
        return ("Unschedulable", message, "see the Events of the Pod".to_owned());
    }
    let (state, remedy) = containers(pod);
    let gates: Vec<&str> = pod
        .spec
        .readiness_gates
        .iter()
        .map(|gate| &*gate.condition_type)
        .filter(|gate| !pod.condition_is_true(gate))
        .collect();
    if state.is_empty() && !gates.is_empty() && pod.condition_is_true("ContainersReady") {
        let message = format!("is not ready: its readiness gates {} are not true", gates.join(", "));
        return ("ReadinessGates", message, "see the conditions of the Pod".to_owned());
    }
    ("NotReady", format!("is not ready{state}"), remedy)
}

/// What the first container does that is not ready, and where to look.
fn containers(pod: &ObservedPod) -> (String, String) {
    let remedy = "see the Events and logs of the Pod".to_owned();
    // Containers start behind their native sidecars.
    let sidecars = pod.native_sidecars().filter_map(|sidecar| pod.container_status(&sidecar.name));
    let unready = sidecars.chain(&pod.status.container_statuses).find(|status| !status.ready);
    let Some(status) = unready else { return (String::new(), remedy) };
    let name = &status.name;
    let state = match (&status.state.waiting, &status.state.terminated) {
        (Some(waiting), _) if !waiting.reason.is_empty() => {
            format!("; container {name} waits: {}", waiting.reason)
        }
        (_, Some(terminated)) => format!("; container {name} ended with exit code {}", terminated.exit_code),
        _ => format!("; container {name} is not ready"),
    };
    (state, remedy)
}
