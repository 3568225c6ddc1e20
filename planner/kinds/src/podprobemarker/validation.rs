//! What a PodProbeMarker may say (docs/behaviour/probes.md#validation-of-a-podprobemarker).

use std::collections::HashSet;

use serde_json::Value;

use super::{FAILED, SUCCEEDED, TAKEN_CONDITIONS};
use crate::workload::submitted::leaves_spec;
use pod::template::metadata::{text_entries, validate_annotations, validate_label_selector, validate_labels};
use pod::template::names::qualified_name;
use pod::template::node::{Node, check_types, invalid};
use pod::template::probes::validate_probe;
use values::canonical::{Kind, table};
use values::field::{FieldError, FieldPath};
use values::verdict::Verdict;

/// Answers a create or, with `old`, an update.
pub fn review(new: &str, old: Option<&str>) -> Verdict {
    // A marker that was stored before it was checked must be able to lose its finalizer.
    if leaves_spec(new, old) {
        return Verdict::allow();
    }
    let read = |object: &str| serde_json::from_str::<Value>(object);
    match (read(new), old.map(read).transpose()) {
        (Ok(new), Ok(old)) => Verdict::of(&validate(&new, old.as_ref()), 400, Vec::new()),
        (Err(error), _) | (_, Err(error)) => Verdict::deny(400, error.to_string()),
    }
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = Value::Null;
    let spec = Node::new(new.get("spec").unwrap_or(&nothing), FieldPath::new("spec"));
    let selector = |object: &Value| object.pointer("/spec/selector").cloned().unwrap_or_default();
    let before = old.map(selector);
    // One that is stored can't be changed.
    if before.as_ref() != Some(&selector(new)) {
        validate_selector(&spec, &mut errors);
    }
    // The paths have no index: clients know these texts.
    if let Err(error) = validate_probes(&spec, &conditions(old), &mut errors) {
        errors.push(error);
    }
    if let Some(old) = before.filter(|before| *before != selector(new)) {
        errors.push(FieldError::invalid_value(FieldPath::new("selector"), old, "selector must be immutable"));
    }
    errors
}

/// The conditions that a stored marker writes: it keeps what it had before that was refused.
fn conditions(old: Option<&Value>) -> Vec<&str> {
    let probes = old.and_then(|old| old.pointer("/spec/probes")).and_then(Value::as_array);
    let kinds = probes.into_iter().flatten().filter_map(|probe| probe.get("podConditionType"));
    kinds.filter_map(Value::as_str).collect()
}

fn validate_selector(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    let Some(selector) = spec.child("selector") else {
        let message = "empty Selector is not valid for PodProbeMarker.";
        errors.push(FieldError::required(spec.at("selector"), message));
        return;
    };
    if selector.count("matchLabels") + selector.count("matchExpressions") == 0 {
        let message = "empty selector is not valid for podProbeMarker.";
        errors.push(FieldError::invalid_value(selector.path(), "{}", message));
    }
    validate_label_selector(&selector, true, errors);
}

/// Checks the probes. What is returned ends the checks.
fn validate_probes(spec: &Node<'_>, stored: &[&str], errors: &mut Vec<FieldError>) -> Result<(), FieldError> {
    let refused = |value: &str, message: String| FieldError::invalid(spec.at("probes"), value, message);
    if spec.count("probes") == 0 {
        let message = "empty probes is not valid for PodProbeMarker.";
        return Err(FieldError::required(spec.at("probes"), message));
    }
    let (mut names, mut conditions) = (HashSet::new(), HashSet::new());
    for probe in spec.list("probes") {
        let name = probe.text("name");
        let fault = if name.contains('#') {
            "probe name can't contains '#'.".to_owned()
        } else if name.is_empty() {
            "probe name can't be empty in PodProbeMarker.".to_owned()
        } else if probe.text("containerName").is_empty() {
            "probe containerName can't be empty in PodProbeMarker.".to_owned()
        } else if TAKEN_CONDITIONS.contains(&name) {
            format!("probe name can't be {name}")
        } else if !names.insert(name) {
            "probe name must be unique in PodProbeMarker.".to_owned()
        } else {
            String::new()
        };
        if !fault.is_empty() {
            return Err(refused(name, fault));
        }
        validate_handler(&probe, spec, errors);
        let condition = probe.text("podConditionType");
        if condition.is_empty() && probe.count("markerPolicy") == 0 {
            let message = "podConditionType and markerPolicy cannot be empty at the same time";
            return Err(refused(name, message.to_owned()));
        }
        if !condition.is_empty() {
            if !conditions.insert(condition) {
                let message = format!("podConditionType {condition} must be unique in podProbeMarker");
                return Err(refused(condition, message));
            }
            if TAKEN_CONDITIONS.contains(&condition) && !stored.contains(&condition) {
                return Err(refused(condition, format!("podConditionType can't be {condition}")));
            }
            invalid(&spec.path(), condition, qualified_name(condition), errors);
        }
        validate_policies(&probe, &spec.at("markerPolicy"), errors)?;
    }
    Ok(())
}

fn validate_handler(probe: &Node<'_>, spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    let nothing = Value::Object(serde_json::Map::new());
    let probe = Node::new(probe.get("probe").unwrap_or(&nothing), spec.at("probe"));
    let known = errors.len();
    check_types(&probe, &Kind::Struct(&table::PROBE), errors);
    if errors.len() == known {
        validate_probe(&probe, errors);
    }
}

fn validate_policies(
    probe: &Node<'_>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Result<(), FieldError> {
    let mut states = HashSet::new();
    for policy in probe.list("markerPolicy") {
        let state = policy.text("state");
        if !states.insert(state) {
            return Err(FieldError::invalid(path.clone(), state, "marker policy state must be unique."));
        }
        if !matches!(state, SUCCEEDED | FAILED) {
            let message = "marker policy state must be 'True' or 'False'";
            errors.push(FieldError::invalid(path.child("state"), state, message));
        }
        if policy.count("labels") + policy.count("annotations") == 0 {
            let message = "marker policy annotations or labels can't be both empty";
            errors.push(FieldError::invalid_value(path.clone(), "{}", message));
        }
        validate_labels(text_entries(&policy, "labels"), &path.child("labels"), errors);
        validate_annotations(text_entries(&policy, "annotations"), &path.child("annotations"), errors);
    }
    Ok(())
}
