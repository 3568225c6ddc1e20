//! A Pod of a workload, read once: what the steps of a plan ask about it.

use std::collections::HashSet;
use std::sync::Arc;

use api::labels::SPECIFIED_DELETE;
use jiff::{SignedDuration, Timestamp};

use pod::inplace::readiness::gate_is_open;
use pod::lifecycle::{State, is_normal};
use pod::observed::{ObservedPod, PodCondition};
use pod::revision_labels::RevisionLabels;
use values::selector::Selector;

/// An active Pod of a workload.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The Pod.
    pub pod: &'a Arc<ObservedPod>,
    /// Its lifecycle state, if it has one.
    pub state: Option<State>,
    /// At the update revision.
    pub is_updated: bool,
    /// It is to be deleted, by its name or its label.
    pub is_specified: bool,
    /// Running, ready, and not under update in place.
    pub is_ready: bool,
    /// Ready, and its lifecycle state does not hold it back: available but for `minReadySeconds`.
    pub is_serving: bool,
    /// Serving, and ready for `minReadySeconds`.
    pub is_available: bool,
    /// When a Pod that is serving becomes available.
    pub available_at: Option<Timestamp>,
}

/// What a workload says about its Pods.
#[derive(Clone, Debug)]
pub struct MemberRules<'s> {
    /// The name of the update revision.
    pub update_revision: &'s str,
    /// How Pods name their revision.
    pub labels: RevisionLabels,
    /// Names of Pods that are to be deleted.
    pub named: HashSet<&'s str>,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// The time of the plan.
    pub now: Timestamp,
}

impl<'a> Member<'a> {
    /// Looks at the Pod.
    pub fn new(pod: &'a Arc<ObservedPod>, rules: &MemberRules<'_>) -> Self {
        let is_ready = &*pod.status.phase == "Running" && pod.is_ready() && gate_is_open(pod);
        let is_serving = is_ready && is_normal(pod);
        let is_available = is_serving && pod.is_ready_for(rules.min_ready_seconds, rules.now);
        let waits = is_serving && !is_available;
        let since = pod.condition("Ready").and_then(PodCondition::since);
        let wanted = SignedDuration::from_secs(rules.min_ready_seconds.into());
        Self {
            pod,
            state: State::of(pod),
            is_updated: rules.labels.is_at(pod, rules.update_revision),
            is_specified: pod.label(SPECIFIED_DELETE).is_some() || rules.named.contains(&*pod.metadata.name),
            is_ready,
            is_serving,
            is_available,
            available_at: since.filter(|_| waits).and_then(|since| since.checked_add(wanted).ok()),
        }
    }

    /// The Pod's name.
    pub fn name(&self) -> &'a str {
        &self.pod.metadata.name
    }

    /// Its preDelete hook holds it, or held it when it was last observed.
    pub fn is_preparing_delete(&self) -> bool {
        self.state == Some(State::PreparingDelete)
    }

    /// It is deleted as soon as it may: the workload waits for that and need not choose another one.
    pub fn is_leaving(&self) -> bool {
        self.is_specified || self.is_preparing_delete()
    }
}

/// The active Pods that the owner with this UID controls: those that its selector matches, sorted by name, and
/// the others.
pub fn own_pods<'a>(
    pods: &'a [Arc<ObservedPod>],
    uid: &str,
    selector: &Selector,
) -> (Vec<&'a Arc<ObservedPod>>, Vec<&'a Arc<ObservedPod>>) {
    let controlled =
        |pod: &&Arc<ObservedPod>| pod.is_active() && pod.controller().is_some_and(|owner| owner.uid == uid);
    let mut pods: Vec<&Arc<ObservedPod>> = pods.iter().filter(controlled).collect();
    pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    pods.into_iter().partition(|pod| selector.matches(&pod.metadata.labels))
}
