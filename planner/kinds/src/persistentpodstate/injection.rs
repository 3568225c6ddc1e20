//! The step of the Pod mutation: a new Pod is led to where the last one of its name ran
//! (docs/behaviour/persistentpodstate.md#new-pods).

use std::collections::BTreeMap;
use std::fmt;

use api::annotations::INJECTED_PERSISTENT_POD_STATE;
use api::kinds::persistentpodstate::{PodState, PreferredTopologyTerm};
use serde_json::{Value, json};

use super::state::{State, States};
use super::workloads::NONE;
use crate::workload::target::Workload;
use pod::review::{Draft, Reasons};
use values::json_patch::{Pointer, string};
use values::verdict::Denial;

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// The weights that the API server takes.
const WEIGHTS: std::ops::RangeInclusive<i32> = 1..=100;

/// What a PersistentPodState is to a new Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It leads the Pod to where the last one of its name ran.
    Steers {
        /// The node of the last one.
        node: String,
    },
    /// Nothing is remembered of a Pod of this name that its topology could be taken from.
    NoRecord,
    /// An older one remembers the Pods of the same workload.
    Displaced,
    /// `spec.targetRef` is not the workload of the Pod.
    OtherWorkload,
    /// Workloads of this kind are not known.
    UnknownKind,
    /// It is being deleted.
    Deleting,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steers { node } => {
                write!(formatter, "leads the Pod to where the last one of its name ran: node {node}")
            }
            Self::NoRecord => {
                formatter.write_str("leaves the Pod as it is: no topology of a Pod of its name is remembered")
            }
            Self::Displaced => formatter.write_str(
                "leaves the Pod as it is: an older PersistentPodState has the same spec.targetRef",
            ),
            Self::OtherWorkload => {
                formatter.write_str("does not concern the Pod: spec.targetRef is not its workload")
            }
            Self::UnknownKind => formatter.write_str(
                "leaves the Pod as it is: its workload is no StatefulSet, and its kind is not listed",
            ),
            Self::Deleting => formatter.write_str("leaves the Pod as it is: it is being deleted"),
        }
    }
}

/// Leads a Pod to where the last one of its name ran, if that is remembered.
pub fn mutate(draft: &mut Draft<'_>, states: &States, reasons: &mut Reasons<Reason>) -> Result<(), Denial> {
    let of_namespace = states.of(&draft.namespace);
    let Some(controller) = draft.controller.as_ref().filter(|_| !of_namespace.is_empty()) else {
        return Ok(());
    };
    let workload = Workload::new(&controller.group, &controller.kind, &controller.name);
    // A list that can't be read leaves Pods of listed kinds alone.
    let is_known = states.listed().unwrap_or(&NONE).know(&workload);
    let found =
        of_namespace.iter().find(|state| is_known && state.is_active() && *state.target() == workload);
    for state in of_namespace {
        reasons.note(state.name(), || match found {
            _ if *state.target() != workload => Reason::OtherWorkload,
            _ if !state.is_active() => Reason::Deleting,
            None => Reason::UnknownKind,
            Some(found) if found.name() != state.name() => Reason::Displaced,
            Some(_) => match record(state, &draft.name) {
                Some(record) => Reason::Steers { node: record.node_name.clone() },
                None => Reason::NoRecord,
            },
        });
    }
    let Some((state, record)) = found.and_then(|state| Some((state, record(state, &draft.name)?))) else {
        return Ok(());
    };
    let selector = selector(state.required(), record);
    let terms: Vec<Value> = state.preferred().iter().map(|term| preferred(term, record)).collect();
    if selector.is_empty() && terms.is_empty() {
        return Ok(());
    }
    let failed = |problem: &dyn fmt::Display| {
        Denial::failed(format!("PersistentPodState {}: {problem}", state.name()))
    };
    let text = draft.current().map_err(|error| failed(&error))?;
    let pod: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    write_selector(draft, &pod, &selector);
    write_terms(draft, &pod, state.name(), terms);
    draft.set_annotation(INJECTED_PERSISTENT_POD_STATE, state.name());
    Ok(())
}

/// What is remembered of the topology of the Pod with this name.
fn record<'s>(state: &'s State, pod: &str) -> Option<&'s PodState> {
    state.record(pod).filter(|record| !record.node_topology_labels.is_empty())
}

/// The required labels that are remembered.
fn selector<'r>(keys: &'r [String], record: &'r PodState) -> BTreeMap<&'r str, &'r str> {
    keys.iter()
        .filter_map(|key| Some((key.as_str(), record.node_topology_labels.get(key)?.as_str())))
        .collect()
}

/// The term of one wish. Where none of its labels is remembered it is one that has no effect.
fn preferred(term: &PreferredTopologyTerm, record: &PodState) -> Value {
    let labels = term.preference.keys.iter();
    let labels = labels.filter_map(|key| Some((key, record.node_topology_labels.get(key)?)));
    let expressions: Vec<Value> =
        labels.map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]})).collect();
    let preference =
        if expressions.is_empty() { json!({}) } else { json!({"matchExpressions": expressions}) };
    // The API server refuses Pods with other weights, and objects of older releases may have any.
    json!({"weight": term.weight.clamp(*WEIGHTS.start(), *WEIGHTS.end()), "preference": preference})
}

/// Sets the labels in `spec.nodeSelector`, over what the template says.
fn write_selector(draft: &mut Draft<'_>, pod: &Value, selector: &BTreeMap<&str, &str>) {
    let path = Pointer::from_escaped("/spec/nodeSelector");
    match pod.pointer(path.as_str()).and_then(Value::as_object) {
        None if selector.is_empty() => {}
        None => draft.put(path, json!(selector).to_string()),
        Some(present) => {
            let differs =
                |(key, value): &(&&str, &&str)| present.get(**key).and_then(Value::as_str) != Some(**value);
            for (key, value) in selector.iter().filter(differs) {
                draft.put(path.key(key), string(value));
            }
        }
    }
}

/// Appends the terms to the preferred ones of the node affinity. A second review does not append them again.
fn write_terms(draft: &mut Draft<'_>, pod: &Value, name: &str, mut terms: Vec<Value>) {
    let levels = ["affinity", "nodeAffinity", PREFERRED];
    let path = levels.iter().fold(Pointer::from_escaped("/spec"), |path, level| path.key(level));
    let present = pod.pointer(path.as_str()).and_then(Value::as_array);
    if draft.annotation(INJECTED_PERSISTENT_POD_STATE) == Some(name) {
        terms.retain(|term| present.is_none_or(|present| !present.contains(term)));
    }
    if terms.is_empty() {
        return;
    }
    if present.is_some() {
        for term in terms {
            draft.put(path.end(), term.to_string());
        }
        return;
    }
    // The first level that is missing comes with all below it.
    let (mut place, mut levels) = (Pointer::from_escaped("/spec"), levels.into_iter());
    for level in levels.by_ref() {
        place = place.key(level);
        if !pod.pointer(place.as_str()).is_some_and(Value::is_object) {
            break;
        }
    }
    let value = levels.rev().fold(Value::Array(terms), |value, level| json!({level: value}));
    draft.put(place, value.to_string());
}
