//! What the controller remembers: the status of a PersistentPodState
//! (docs/behaviour/persistentpodstate.md#what-is-remembered).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::features::{Feature, FeatureGates};
use api::kinds::persistentpodstate::{PersistentPodState, PodState, RetentionPolicy, Spec, Status};
use serde_json::{Map, Value, json};

use crate::workload::ordinal;
use crate::workload::ordinals::{Ordinals, ReservedOrdinals};
use crate::workload::resolved::ResolvedWorkload;
use pod::node_fit::Nodes;
use pod::observed::{ObservedPod, Pairs};
use values::merge_patch::difference;

#[cfg(test)]
mod tests;

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The PersistentPodState.
    pub state: &'a PersistentPodState,
    /// Its target; `None` where there is none.
    pub workload: Option<&'a ResolvedWorkload>,
    /// The Pods that the target owns.
    pub pods: &'a [Arc<ObservedPod>],
    /// The labels of all Nodes.
    pub nodes: &'a Nodes,
    /// The feature gates.
    pub gates: &'a FeatureGates,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The merge patch of the status, where it changes.
    pub status: Option<String>,
    /// A Node that is not known, though a ready Pod runs on it: to be reconciled again.
    pub unknown_node: Option<String>,
}

/// Plans what to do.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let state = snapshot.state;
    let mut unknown_node = None;
    let lives = |workload: &&ResolvedWorkload| workload.metadata.deletion_timestamp.is_none();
    let pod_states = match snapshot.workload.filter(lives) {
        Some(workload) => remembered(snapshot, workload, &mut unknown_node),
        None => BTreeMap::new(),
    };
    let new = Status { observed_generation: state.metadata.generation.unwrap_or_default(), pod_states };
    Plan { status: (new != state.status).then(|| patch(state, &new)), unknown_node }
}

fn remembered(
    snapshot: &Snapshot<'_>,
    workload: &ResolvedWorkload,
    unknown_node: &mut Option<String>,
) -> BTreeMap<String, PodState> {
    let Snapshot { state, pods, nodes, gates, .. } = *snapshot;
    let mut records = state.status.pod_states.clone();
    let pods = if workload.replicas == Some(0) { &[] } else { pods };
    let active: BTreeMap<&str, &ObservedPod> =
        pods.iter().filter(|pod| pod.is_active()).map(|pod| (&*pod.metadata.name, &**pod)).collect();
    for (name, pod) in &active {
        let node = &*pod.spec.node_name;
        if !pod.is_ready() || node.is_empty() {
            continue;
        }
        match nodes.get(node) {
            Some(node) => drop(records.insert((*name).to_owned(), record(&state.spec, pod, &node.labels))),
            None => *unknown_node = Some(node.to_owned()),
        }
    }
    if state.spec.persistent_pod_state_retention_policy != Some(RetentionPolicy::WhenDeleted)
        && let Some(ordinals) = ordinals(workload, gates)
    {
        let is_kept = |name: &str| ordinal::split(name).is_none_or(|(_, ordinal)| ordinals.contains(ordinal));
        records.retain(|name, _| active.contains_key(name.as_str()) || is_kept(name));
    }
    records
}

/// The ordinals of the Pods that a workload wants; `None` where nobody says how many these are.
fn ordinals(workload: &ResolvedWorkload, gates: &FeatureGates) -> Option<Ordinals> {
    let (start, reserved) = match &*workload.group {
        api::APPS_GROUP => {
            let starts = gates.enabled(Feature::StatefulSetStartOrdinal);
            let start = if starts { workload.start_ordinal } else { 0 };
            (start, ReservedOrdinals::parse(&workload.reserved_ordinals))
        }
        "apps" => (workload.start_ordinal, ReservedOrdinals::default()),
        _ => (0, ReservedOrdinals::default()),
    };
    Some(Ordinals::new(start.max(0), workload.replicas?.into(), reserved))
}

/// What is remembered of a Pod that runs ready on a node with these labels.
fn record(spec: &Spec, pod: &ObservedPod, labels: &Pairs) -> PodState {
    let required = spec.required_persistent_topology.iter().flat_map(|term| &term.keys);
    let preferred = spec.preferred_persistent_topology.iter().flat_map(|term| &term.preference.keys);
    let topology = required.chain(preferred);
    let wanted = &spec.persistent_pod_annotations;
    let annotations = if wanted.is_empty() { BTreeMap::new() } else { annotations(spec, pod) };
    PodState {
        annotations,
        node_name: pod.spec.node_name.to_string(),
        node_topology_labels: topology
            .filter_map(|key| Some((key.clone(), labels.get(key)?.to_owned())))
            .collect(),
    }
}

fn annotations(spec: &Spec, pod: &ObservedPod) -> BTreeMap<String, String> {
    let pod = pod.whole();
    let wanted = spec.persistent_pod_annotations.iter();
    wanted.filter_map(|wanted| Some((wanted.key.clone(), pod.annotation(&wanted.key)?.to_owned()))).collect()
}

/// The merge patch that brings the status to `new`, of the state that was observed.
fn patch(state: &PersistentPodState, new: &Status) -> String {
    let mut status = Map::new();
    status.insert("observedGeneration".to_owned(), new.observed_generation.into());
    let old = &state.status.pod_states;
    if new.pod_states.is_empty() && !old.is_empty() {
        status.insert("podStates".to_owned(), Value::Null);
    } else if new.pod_states != *old {
        status.insert("podStates".to_owned(), difference(&json!(old), &json!(new.pod_states)));
    }
    let metadata = &state.metadata;
    let observed = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
    json!({"metadata": observed, "status": status}).to_string()
}
