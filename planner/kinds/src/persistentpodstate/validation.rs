//! Validation of PersistentPodStates (docs/behaviour/persistentpodstate.md#validation). Paths are those of v1beta1, in
//! whatever version the object came.

use api::kinds::persistentpodstate::{API_VERSION, PersistentPodState, RetentionPolicy};
use serde_json::json;

use super::state::State;
use super::workloads::{ListedKinds, WHITE_LIST, built_in};
use crate::workload::submitted::read;
use crate::workload::target::Workload;
use crate::workload::validation::keep_new;
use values::field::{FieldError, FieldPath};
use values::verdict::Verdict;

#[cfg(test)]
mod tests;

/// What validation reads beside the object.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The PersistentPodStates of the namespace.
    pub others: &'a [State],
    /// The listed kinds, or what is wrong with the list.
    pub listed: Result<&'a ListedKinds, &'a str>,
}

/// Answers a CREATE or, with `old`, an UPDATE request. Every refusal has code 400.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    let read = |object| read::<PersistentPodState>(object, API_VERSION);
    let new = match read(new) {
        Ok(new) => new,
        Err(denial) => return denial.into(),
    };
    let old = match old.map(read).transpose() {
        Ok(old) => old,
        Err(denial) => return denial.into(),
    };
    let mut errors = validate(&new, context);
    if let Some(old) = &old {
        keep_new(&mut errors, || validate(old, context));
        if new.spec.target_ref != old.spec.target_ref {
            errors.push(FieldError::forbidden(target_path(), "targetRef is immutable"));
        }
    }
    Verdict::of(&errors, 400, Vec::new())
}

fn target_path() -> FieldPath {
    FieldPath::new("spec.targetRef")
}

fn validate(state: &PersistentPodState, context: &Context<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_target(state, context, &mut errors);
    let spec = &state.spec;
    if spec.required_persistent_topology.is_none() && spec.preferred_persistent_topology.is_empty() {
        let message = "TopologyConstraint and TopologyPreference cannot be empty at the same time";
        errors.push(FieldError::invalid_value(FieldPath::new("spec"), json!(spec), message));
    }
    let preferred = FieldPath::new("spec.preferredPersistentTopology");
    for (index, term) in spec.preferred_persistent_topology.iter().enumerate() {
        // The API server takes no Pod with another weight.
        if !(1..=100).contains(&term.weight) {
            let path = preferred.index(index).child("weight");
            errors.push(FieldError::invalid_value(path, term.weight, "must be in the range 1-100"));
        }
    }
    if let Some(RetentionPolicy::Other(word)) = &spec.persistent_pod_state_retention_policy {
        let path = FieldPath::new("spec.persistentPodStateRetentionPolicy");
        errors.push(FieldError::not_supported(path, word, &["WhenScaled", "WhenDeleted"]));
    }
    validate_others(state, context, &mut errors);
    errors
}

fn validate_target(state: &PersistentPodState, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let target = &state.spec.target_ref;
    let mut refuse =
        |message: &str| errors.push(FieldError::invalid_value(target_path(), json!(target), message));
    if [&target.api_version, &target.kind, &target.name].iter().any(|text| text.is_empty()) {
        refuse("empty targetRef is not valid for PersistentPodState.");
    }
    let workload = Workload::from(target);
    if built_in(&workload).is_some() && is_version(&target.api_version) {
        return;
    }
    match context.listed {
        Ok(listed) if listed.know(&workload) && is_version(&target.api_version) => {}
        Ok(_) => refuse(&format!("targetRef.Kind must be StatefulSet or in {WHITE_LIST}")),
        Err(problem) => {
            let message = format!("failed to get persistent pod state config white list, error: {problem}");
            errors.push(FieldError::internal(FieldPath::default(), message));
        }
    }
}

/// Whether a text is a group and version, or a version.
fn is_version(api_version: &str) -> bool {
    api_version.matches('/').count() < 2
}

/// The Pods of a workload are remembered by one PersistentPodState.
fn validate_others(state: &PersistentPodState, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let target = &state.spec.target_ref;
    let workload = Workload::from(target);
    let conflicts = |other: &&State| other.name() != state.metadata.name && *other.target() == workload;
    if target.name.is_empty() {
        return;
    }
    if let Some(other) = context.others.iter().find(conflicts) {
        let message = format!("targetRef is in conflict with other PersistentPodState {}", other.name());
        errors.push(FieldError::invalid_value(target_path(), json!(target), message));
    }
}
