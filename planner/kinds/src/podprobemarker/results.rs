//! What the results of probes change in a Pod (docs/behaviour/probes.md#results-on-pods).

use std::collections::HashMap;

use api::kinds::Time;
use api::kinds::nodepodprobe::{NodePodProbe, ProbeState};
use api::kinds::podprobemarker::{ContainerProbe, MarkerPolicy};

use super::marker::mark;
use super::probed::Probed;
use super::{FAILED, SUCCEEDED, TAKEN_CONDITIONS};
use pod::observed::{ConditionText, ObservedPod, PodCondition, Second};
use pod::write::{PodWrite, Target};
use values::event::{Event, warning};

/// What changes in one Pod, and the Events about it.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    /// The Pod.
    pub pod: &'a ObservedPod,
    /// One patch of its status, labels and annotations.
    pub write: PodWrite,
    /// Conditions that two probes claim.
    pub conflicts: Vec<Event>,
}

/// What the results of a NodePodProbe change in the Pods that are probed on its node. Pods without news are left out.
pub fn results<'a>(known: &NodePodProbe, probed: &[Probed<'a>]) -> Vec<Results<'a>> {
    let of = |probed: &Probed<'a>| {
        let results = results_of(probed, states(known, probed.pod));
        (!results.write.is_empty() || !results.conflicts.is_empty()).then_some(results)
    };
    probed.iter().filter_map(of).collect()
}

/// What a NodePodProbe says about the probes of a Pod.
pub(super) fn states<'n>(known: &'n NodePodProbe, pod: &ObservedPod) -> &'n [ProbeState] {
    let metadata = &pod.metadata;
    let mut all = known.status.pod_probe_statuses.iter();
    let reported = all.find(|reported| {
        *reported.uid == *metadata.uid
            && *reported.name == *metadata.name
            && *reported.namespace == *metadata.namespace
    });
    reported.map_or(&[][..], |reported| reported.probe_states.as_slice())
}

fn results_of<'a>(probed: &Probed<'a>, states: &[ProbeState]) -> Results<'a> {
    let pod = probed.pod;
    let (mut write, mut conflicts) = (PodWrite::to(Target::Status), Vec::new());
    let mut conditions: HashMap<&str, &str> = HashMap::new();
    for state in states.iter().filter(|state| !state.state.is_empty()) {
        let Some(probe) = probed.named(&state.name) else { continue };
        unmark(&mut write, probe, &state.state);
        probe
            .marker_policy
            .iter()
            .filter(|policy| policy.state == state.state)
            .for_each(|policy| mark(&mut write, policy));
        let kind = probe.pod_condition_type.as_str();
        // One stored before it was refused would take a condition from the kubelet.
        if kind.is_empty() || TAKEN_CONDITIONS.contains(&kind) {
            continue;
        }
        if let Some(first) = conditions.get(kind) {
            conflicts.push(conflict(kind, first, &state.name));
            continue;
        }
        conditions.insert(kind, &state.name);
        set_condition(&mut write, pod, kind, state);
    }
    write.drop_what_holds(pod);
    Results { pod, write, conflicts }
}

fn conflict(kind: &str, first: &str, second: &str) -> Event {
    let message = format!("Condition {kind} is written by probe {first}, and so not by probe {second}");
    warning("ProbeConditionConflict", message)
}

fn set_condition(write: &mut PodWrite, pod: &ObservedPod, kind: &str, state: &ProbeState) {
    let status = if state.state == SUCCEEDED { "True" } else { "False" };
    let holds =
        pod.condition(kind).is_some_and(|known| *known.status == *status && *known.message == *state.message);
    if holds {
        return;
    }
    let time = |time: &Option<Time>| time.as_ref().and_then(Time::timestamp);
    if let Some(probed) = time(&state.last_probe_time) {
        write.probe_times.insert(kind.to_owned(), probed);
    }
    let message = state.message.as_str().into();
    let text =
        ConditionText { kind: kind.into(), status: status.into(), message, ..ConditionText::default() };
    write.conditions.push(PodCondition {
        text: text.into(),
        last_transition_time: time(&state.last_transition_time).map(Second::from),
    });
}

/// Takes away what the last policy of another state has set. A probe that knows nothing changes nothing: a container
/// that starts anew would take labels away for a moment.
fn unmark(write: &mut PodWrite, probe: &ContainerProbe, state: &str) {
    if !matches!(state, SUCCEEDED | FAILED) {
        return;
    }
    let opposite = probe.marker_policy.iter().rfind(|policy| policy.state != state);
    let Some(MarkerPolicy { labels, annotations, .. }) = opposite else { return };
    for key in labels.keys() {
        write.labels.entry(key.clone()).or_default();
    }
    for key in annotations.keys() {
        write.annotations.entry(key.clone()).or_default();
    }
}
