//! Selectors, the update strategy and the pinned revision (docs/behaviour/sidecarset.md#spec-rules).

use api::sidecarset::{IntOrString, SidecarSet, UpdateStrategy};

use super::{Context, RevisionQuery, Validation, validate_selector};
use crate::workload::update_order::validation::{validate_priority, validate_scatter};
use pod::template::limits::validate_number_or_percent;
use pod::template::names;
use values::field::{FieldError, FieldPath};
use values::json_patch;

const STRATEGY: &str = "spec.updateStrategy";

pub(super) fn validate(
    new: &SidecarSet,
    old: Option<&SidecarSet>,
    context: &Context<'_>,
    validation: &mut Validation,
) {
    let spec = &new.spec;
    let strategy = &spec.update_strategy;
    let rolling = !strategy.is_not_update();
    if rolling && spec.init_containers.iter().any(|container| container.is_native_sidecar()) {
        let message = "The initContainer in-place upgrade is not currently supported.";
        validation.errors.push(FieldError::required(FieldPath::new(STRATEGY), message));
    }
    if !matches!(strategy.kind.as_str(), "" | "RollingUpdate" | "NotUpdate") {
        let path = FieldPath::new(STRATEGY).child("type");
        validation.refuse_new(
            old,
            FieldError::not_supported(path, &strategy.kind, &["RollingUpdate", "NotUpdate"]),
        );
    }
    let errors = &mut validation.errors;
    match &spec.selector {
        None => errors.push(FieldError::required(
            FieldPath::new("spec.selector"),
            "no selector defined for SidecarSet",
        )),
        Some(selector) => validate_selector(selector, &FieldPath::new("spec.selector"), errors),
    }
    if let Some(selector) = &spec.namespace_selector {
        validate_selector(selector, &FieldPath::new("spec.namespaceSelector"), errors);
    }
    validate_revision(new, context, errors);
    if rolling {
        validate_rolling_update(strategy, errors);
    }
    // It becomes a label of the ControllerRevision.
    for problem in names::label_value(&spec.custom_version) {
        let path = FieldPath::new("spec.customVersion");
        validation.refuse_new(old, FieldError::invalid(path, &spec.custom_version, problem));
    }
}

fn validate_revision(new: &SidecarSet, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let Some(revision) = &new.spec.injection_strategy.revision else { return };
    let path = FieldPath::new("revision");
    let name = revision.revision_name.as_deref().filter(|name| !name.is_empty());
    let version = revision.custom_version.as_deref().filter(|version| !version.is_empty());
    let sidecar_set = new.name();
    let wanted = match (name, version) {
        (Some(name), _) => Some((name, RevisionQuery::Name { sidecar_set, name })),
        (None, Some(version)) => Some((sidecar_set, RevisionQuery::CustomVersion { sidecar_set, version })),
        (None, None) => None,
    };
    // A failure to show the value must not hide the error.
    let shown = serde_json::to_string(revision).unwrap_or_default();
    match wanted {
        None => {
            let message = "revisionName and customVersion cannot be empty simultaneously";
            errors.push(FieldError::invalid_value(path.clone(), shown, message));
        }
        Some((name, query)) if !(context.has_revision)(query) => {
            let name = json_patch::string(name);
            let message = format!(
                "Cannot find specific ControllerRevision, err: ControllerRevision.apps {name} not found"
            );
            errors.push(FieldError::invalid_value(path.clone(), shown, message));
        }
        Some(_) => {}
    }
    if !matches!(revision.policy.as_str(), "" | "Always" | "Partial") {
        let message = format!("Invalid policy {}, supported: [Always, Partial]", revision.policy);
        errors.push(FieldError::invalid(path.child("policy"), &revision.policy, message));
    }
}

fn validate_rolling_update(strategy: &UpdateStrategy, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new(STRATEGY);
    if let Some(selector) = &strategy.selector {
        if strategy.partition.as_ref().is_some_and(|partition| *partition != IntOrString::Int(0)) {
            let shown = serde_json::to_string(strategy).unwrap_or_default();
            let message = "Partition and Selector cannot be used together";
            errors.push(FieldError::invalid_value(FieldPath::new("updateStrategy"), shown, message));
        }
        validate_selector(selector, &path.child("selector"), errors);
    }
    for (name, value) in [("partition", &strategy.partition), ("maxUnavailable", &strategy.max_unavailable)] {
        if let Some(value) = value {
            validate_number_or_percent(value, path.child(name), errors);
        }
    }
    if let Some(priority) = &strategy.priority_strategy {
        validate_priority(priority, &path.child("priorityStrategy"), errors);
    }
    validate_scatter(&strategy.scatter_strategy, &path.child("scatterStrategy"), errors);
}
