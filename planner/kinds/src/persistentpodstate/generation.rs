//! PersistentPodStates that workloads ask for by annotations
//! (docs/behaviour/persistentpodstate.md#generated-objects).

use std::sync::Arc;

use api::annotations::{
    AUTO_GENERATE_PERSISTENT_POD_STATE, PERSISTENT_POD_ANNOTATIONS, PREFERRED_PERSISTENT_TOPOLOGY,
    REQUIRED_PERSISTENT_TOPOLOGY,
};
use api::kinds::persistentpodstate::{
    API_VERSION, KIND, NodeTopologyTerm, PersistentPodAnnotation, PersistentPodState, PreferredTopologyTerm,
    Spec,
};
use api::kinds::shared::TargetReference;
use serde_json::{Map, Value, json};

use crate::workload::resolved::ResolvedWorkload;
use crate::workload::target::Workload;
use values::event::{Event, warning};

#[cfg(test)]
mod tests;

/// The weight of the generated wish.
const WEIGHT: i32 = 100;

/// The annotations by which a workload asks.
pub const ANNOTATIONS: [&str; 4] = [
    AUTO_GENERATE_PERSISTENT_POD_STATE,
    REQUIRED_PERSISTENT_TOPOLOGY,
    PREFERRED_PERSISTENT_TOPOLOGY,
    PERSISTENT_POD_ANNOTATIONS,
];

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Everything is as it is to be.
    Nothing,
    /// This object is missing.
    Create(String),
    /// The object of the workload's name is to be changed by this merge patch.
    Change(String),
    /// This object is not wanted any more.
    Delete(Arc<PersistentPodState>),
    /// What is asked for can't be had; the Event on the workload says why.
    Tell(Event),
}

/// Plans what becomes of the PersistentPodState of a workload, which is read in this API version. `known` are those of
/// the namespace.
pub fn plan(workload: &ResolvedWorkload, api_version: &str, known: &[Arc<PersistentPodState>]) -> Step {
    if workload.metadata.deletion_timestamp.is_some() {
        // It is deleted with its owner.
        return Step::Nothing;
    }
    let name = &*workload.metadata.name;
    let present = known.iter().find(|state| state.metadata.name == name);
    let own = present.filter(|state| is_of(state, workload));
    if !asks(workload) {
        let wanted_so_far = own.filter(|state| state.metadata.deletion_timestamp.is_none());
        return wanted_so_far.map_or(Step::Nothing, |state| Step::Delete(state.clone()));
    }
    let Some(spec) = wanted(workload, api_version) else {
        return Step::Tell(refusal(format!(
            "annotation {AUTO_GENERATE_PERSISTENT_POD_STATE} is set, but neither {REQUIRED_PERSISTENT_TOPOLOGY} nor \
             {PREFERRED_PERSISTENT_TOPOLOGY} names a label"
        )));
    };
    let target = Workload::from(&spec.target_ref);
    match (own, present) {
        (Some(own), _) if Workload::from(&own.spec.target_ref) != target => {
            Step::Tell(refusal(format!("{KIND} {name} has another spec.targetRef, which can't be changed")))
        }
        (Some(own), _) => change(own, &spec).map_or(Step::Nothing, Step::Change),
        (None, Some(_)) => {
            Step::Tell(refusal(format!("{KIND} {name} exists and is not controlled by this workload")))
        }
        (None, None) => {
            let rival = known.iter().find(|state| Workload::from(&state.spec.target_ref) == target);
            match rival {
                Some(rival) => Step::Tell(refusal(format!(
                    "{KIND} {} has this workload as its spec.targetRef already",
                    rival.metadata.name
                ))),
                None => Step::Create(object(workload, api_version, &spec)),
            }
        }
    }
}

fn refusal(message: String) -> Event {
    warning("PersistentPodStateNotGenerated", message)
}

/// Whether a workload asks for a PersistentPodState.
pub fn asks(workload: &ResolvedWorkload) -> bool {
    workload.metadata.annotations.get(AUTO_GENERATE_PERSISTENT_POD_STATE) == Some("true")
}

/// Whether the workload controls the object: one that a user has made is left alone, and so is one of an earlier
/// workload of the name, which is about to go.
fn is_of(state: &PersistentPodState, workload: &ResolvedWorkload) -> bool {
    state.metadata.controller().is_some_and(|owner| *owner.uid == *workload.metadata.uid)
}

/// What the annotations ask for; `None` where they name no label.
fn wanted(workload: &ResolvedWorkload, api_version: &str) -> Option<Spec> {
    let annotations = &workload.metadata.annotations;
    let keys = |annotation: &str| -> Vec<String> {
        let parts = annotations.get(annotation).unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let required = Some(keys(REQUIRED_PERSISTENT_TOPOLOGY)).filter(|keys| !keys.is_empty());
    let preferred = Some(keys(PREFERRED_PERSISTENT_TOPOLOGY)).filter(|keys| !keys.is_empty());
    if required.is_none() && preferred.is_none() {
        return None;
    }
    let remembered = keys(PERSISTENT_POD_ANNOTATIONS).into_iter();
    let term = |keys| PreferredTopologyTerm { preference: NodeTopologyTerm { keys }, weight: WEIGHT };
    Some(Spec {
        persistent_pod_annotations: remembered.map(|key| PersistentPodAnnotation { key }).collect(),
        persistent_pod_state_retention_policy: None,
        preferred_persistent_topology: preferred.map(term).into_iter().collect(),
        required_persistent_topology: required.map(|keys| NodeTopologyTerm { keys }),
        target_ref: TargetReference {
            api_version: api_version.to_owned(),
            kind: workload.kind.to_string(),
            name: workload.metadata.name.to_string(),
        },
    })
}

/// The patch of what the annotations say. What else a user has put into the spec stays.
fn change(own: &PersistentPodState, wanted: &Spec) -> Option<String> {
    let present = &own.spec;
    let mut spec = Map::new();
    if present.required_persistent_topology != wanted.required_persistent_topology {
        spec.insert("requiredPersistentTopology".to_owned(), json!(wanted.required_persistent_topology));
    }
    if present.preferred_persistent_topology != wanted.preferred_persistent_topology {
        spec.insert("preferredPersistentTopology".to_owned(), list(&wanted.preferred_persistent_topology));
    }
    if present.persistent_pod_annotations != wanted.persistent_pod_annotations {
        spec.insert("persistentPodAnnotations".to_owned(), list(&wanted.persistent_pod_annotations));
    }
    if spec.is_empty() {
        return None;
    }
    let metadata = &own.metadata;
    let observed = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
    Some(json!({"metadata": observed, "spec": spec}).to_string())
}

/// A list of a merge patch; an empty one is removed.
fn list<T: serde::Serialize>(elements: &[T]) -> Value {
    if elements.is_empty() { Value::Null } else { json!(elements) }
}

/// The object that is missing.
fn object(workload: &ResolvedWorkload, api_version: &str, spec: &Spec) -> String {
    let ResolvedWorkload { kind, metadata, .. } = workload;
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": metadata.name, "uid": metadata.uid,
        "controller": true});
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": metadata.name, "namespace": &*metadata.namespace, "ownerReferences": [owner]},
        "spec": spec,
    })
    .to_string()
}
