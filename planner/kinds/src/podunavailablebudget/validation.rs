//! What a PodUnavailableBudget may say (docs/behaviour/podunavailablebudget.md#validation).

use api::Raw;
use api::annotations::{PUB_PROTECT_OPERATIONS, PUB_PROTECT_TOTAL_REPLICAS, UNHEALTHY_PODS};
use api::features::{Feature, FeatureGates};
use api::kinds::podunavailablebudget::{API_VERSION, PodUnavailableBudget, ProtectOperation, Spec};
use api::kinds::shared::IntOrString;
use api::meta::LabelSelector;
use serde::Serialize;

use super::terms::{Operation, UnhealthyPods};
use crate::workload::submitted::{in_hub_version, leaves_spec};
use crate::workload::target::Workload;
use pod::template::limits::validate_number_or_percent;
use pod::template::metadata;
use values::field::{FieldError, FieldPath};
use values::read::from_str;
use values::selector::is_empty;
use values::verdict::Verdict;

mod overlap;
#[cfg(test)]
mod tests;

use overlap::loosely_overlap;

const GATES_OFF: &str = "feature PodUnavailableBudget is invalid, please open via \
     feature-gate(PodUnavailableBudgetDeleteGate, PodUnavailableBudgetUpdateGate)";
const SELECTOR_OR_TARGET: &str = "spec.selector, targetRef";

/// What validation reads beside the object.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The API version of the request.
    pub version: &'a str,
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// The budgets of the namespace, the one under review perhaps among them.
    pub budgets: &'a [Raw],
}

/// Decides a create or an update. Every refusal has code 400.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    // Labels and finalizers of what is stored can be changed, whatever is wrong with it, or it could not go.
    if leaves_spec(new, old) && limiting_annotations(new) == old.and_then(limiting_annotations) {
        return Verdict::allow();
    }
    let gates = [Feature::PodUnavailableBudgetDeleteGate, Feature::PodUnavailableBudgetUpdateGate];
    if !gates.into_iter().any(|gate| context.gates.enabled(gate)) {
        return Verdict::deny(400, GATES_OFF);
    }
    let errors = read(new, context.version, "").and_then(|new| {
        let old = old.map(|old| read(old, context.version, "old ")).transpose()?;
        Ok(validate(&new, old.as_ref(), context))
    });
    match errors {
        Ok(errors) => Verdict::of(&errors, 400, Vec::new()),
        Err(message) => Verdict::deny(400, message),
    }
}

/// The annotations that say what is protected.
fn limiting_annotations(object: &str) -> Option<[Option<String>; 3]> {
    let mut budget: PodUnavailableBudget = serde_json::from_str(object).ok()?;
    let annotations = &mut budget.metadata.annotations;
    let limiting = [PUB_PROTECT_OPERATIONS, PUB_PROTECT_TOTAL_REPLICAS, UNHEALTHY_PODS];
    Some(limiting.map(|key| annotations.remove(key)))
}

/// A budget of a request, in the form in which it is stored.
struct Submitted {
    budget: PodUnavailableBudget,
    /// The annotation for the total, as it was sent: conversion takes it off.
    total: Option<String>,
}

fn read(object: &str, version: &str, which: &str) -> Result<Submitted, String> {
    let sent: PodUnavailableBudget = from_str(object).map_err(|error| error.to_string())?;
    let annotation = |key| sent.metadata.annotations.get(key).cloned();
    let total = annotation(PUB_PROTECT_TOTAL_REPLICAS);
    let budget = match version {
        "v1beta1" => sent,
        "v1alpha1" => {
            let failed = |error: String| format!("failed to convert {which}v1alpha1 PUB to v1beta1: {error}");
            check_annotations(annotation(PUB_PROTECT_OPERATIONS), total.as_deref()).map_err(failed)?;
            let converted = in_hub_version(object, API_VERSION).map_err(|denial| failed(denial.message))?;
            from_str(&converted).map_err(|error| error.to_string())?
        }
        version => return Err(format!("unsupported version: {version}")),
    };
    Ok(Submitted { budget, total })
}

/// Annotations that become fields. Conversion itself keeps what it can't read: objects that are stored already have to
/// stay readable.
fn check_annotations(operations: Option<String>, total: Option<&str>) -> Result<(), String> {
    let operations = operations.unwrap_or_default();
    let unknown = operations
        .split(',')
        .map(str::trim)
        .find(|item| !item.is_empty() && !Operation::ALL.iter().any(|operation| operation.name() == *item));
    if let Some(item) = unknown {
        return Err(format!("invalid {PUB_PROTECT_OPERATIONS} value {item:?}"));
    }
    match total.filter(|total| !total.is_empty()).map(str::parse::<i32>) {
        Some(Err(error)) => Err(format!("failed to parse {PUB_PROTECT_TOTAL_REPLICAS}: {error}")),
        _ => Ok(()),
    }
}

fn validate(new: &Submitted, old: Option<&Submitted>, context: &Context<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &new.budget.spec;
    validate_total(new, &mut errors);
    validate_unhealthy_pods(&new.budget, &mut errors);
    validate_subject(spec, &mut errors);
    validate_limit(spec, &mut errors);
    validate_operations(spec, &mut errors);
    if let Some(selector) = &spec.ignored_pod_selector {
        let empty = "empty ignoredPodSelector is not valid for PodUnavailableBudget";
        validate_selector(selector, "spec.ignoredPodSelector", empty, &mut errors);
    }
    if old.is_some_and(|old| !is_same_subject(spec, &old.budget.spec)) {
        errors.push(required(SELECTOR_OR_TARGET, "selector and targetRef cannot be modified"));
    }
    errors.extend(conflicting(new, context.budgets));
    errors
}

fn validate_total(new: &Submitted, errors: &mut Vec<FieldError>) {
    let Some(total) = &new.total else { return };
    let path = FieldPath::new("metadata.annotations").key(PUB_PROTECT_TOTAL_REPLICAS);
    if total.parse::<i32>().is_err() {
        errors.push(FieldError::invalid(path.clone(), total, "must be a valid int32"));
    }
    if new.budget.spec.protect_total_replicas.is_some_and(|field| field.to_string() != *total) {
        let message = "must match spec.protectTotalReplicas when both are set";
        errors.push(FieldError::invalid(path, total, message));
    }
}

fn validate_unhealthy_pods(budget: &PodUnavailableBudget, errors: &mut Vec<FieldError>) {
    if let Some(word) = budget.metadata.annotations.get(UNHEALTHY_PODS)
        && UnhealthyPods::given(budget).is_none()
    {
        let path = FieldPath::new("metadata.annotations").key(UNHEALTHY_PODS);
        errors.push(FieldError::not_supported(path, word, &UnhealthyPods::ALL.map(UnhealthyPods::name)));
    }
}

fn validate_subject(spec: &Spec, errors: &mut Vec<FieldError>) {
    match (&spec.selector, &spec.target_ref) {
        (None, None) => {
            errors.push(required(
                SELECTOR_OR_TARGET,
                "no selector or targetRef defined in PodUnavailableBudget",
            ));
        }
        (Some(_), Some(_)) => {
            errors.push(required(SELECTOR_OR_TARGET, "selector and targetRef are mutually exclusive"));
        }
        _ => {}
    }
    if let Some(target) = &spec.target_ref {
        let path = "spec.targetRef";
        if [&target.api_version, &target.kind, &target.name].iter().any(|part| part.is_empty()) {
            errors.push(invalid(path, target, "empty targetRef is not valid for PodUnavailableBudget"));
        }
        let version = &target.api_version;
        if version.matches('/').count() > 1 {
            errors.push(invalid(path, target, &format!("unexpected GroupVersion string: {version}")));
        }
    }
    if let Some(selector) = &spec.selector {
        let empty = "empty selector is not valid for PodUnavailableBudget.";
        validate_selector(selector, "spec.selector", empty, errors);
    }
}

fn validate_selector(selector: &LabelSelector, path: &str, empty: &str, errors: &mut Vec<FieldError>) {
    metadata::validate_selector(selector, &FieldPath::new(path), errors);
    if is_empty(selector) {
        errors.push(invalid(path, selector, empty));
    }
}

fn validate_limit(spec: &Spec, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.maxUnavailable, minAvailable";
    match (&spec.max_unavailable, &spec.min_available) {
        (None, None) => {
            errors.push(required(PATH, "no maxUnavailable or minAvailable defined in PodUnavailableBudget"));
        }
        (Some(_), Some(_)) => {
            errors.push(required(PATH, "maxUnavailable and minAvailable are mutually exclusive"));
        }
        _ => {}
    }
    for (path, value) in
        [("spec.maxUnavailable", &spec.max_unavailable), ("spec.minAvailable", &spec.min_available)]
    {
        let Some(value) = value else { continue };
        let before = errors.len();
        validate_number_or_percent(value, FieldPath::new(path), errors);
        if let IntOrString::String(text) = value
            && errors.len() == before
            && text.trim_end_matches('%').parse::<u64>().map_or(true, |share| share > 100)
        {
            errors.push(invalid(path, value, "must not be greater than 100%"));
        }
    }
}

fn validate_operations(spec: &Spec, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.protectOperations");
    for (index, operation) in spec.protect_operations.iter().enumerate() {
        if let ProtectOperation::Other(word) = operation {
            let supported = Operation::ALL.map(Operation::name);
            errors.push(FieldError::not_supported(path.index(index), word, &supported));
        }
    }
}

/// Another version of the same workload is the same.
fn is_same_subject(one: &Spec, other: &Spec) -> bool {
    let [one_target, other_target] = [one, other].map(|spec| spec.target_ref.as_ref().map(Workload::from));
    one.selector == other.selector && one_target == other_target
}

/// The first other budget that conflicts.
fn conflicting(new: &Submitted, budgets: &[Raw]) -> Option<FieldError> {
    let PodUnavailableBudget { metadata, spec, .. } = &new.budget;
    let budgets = budgets.iter().filter_map(|budget| serde_json::from_str(budget.get()).ok());
    budgets
        .filter(|other: &PodUnavailableBudget| {
            other.metadata.name != metadata.name && other.metadata.deletion_timestamp.is_none()
        })
        .find_map(|other| Some(conflict(spec, &other.spec)?.error(spec, &other.metadata.name)))
}

/// How two budgets of a namespace conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// They name the same workload.
    Target,
    /// Their selectors can match the same Pods.
    Selector,
}

impl Conflict {
    fn error(self, spec: &Spec, other: &str) -> FieldError {
        let message = |field| format!("pub.{field} is in conflict with other PodUnavailableBudget {other}");
        match self {
            Self::Target => {
                invalid("spec.targetReference", &spec.target_ref, &message("spec.targetReference"))
            }
            Self::Selector => invalid("spec.selector", &spec.selector, &message("spec.selector")),
        }
    }
}

/// The conflict of two budgets. One that names its workload and one with a selector never conflict.
pub(crate) fn conflict(one: &Spec, other: &Spec) -> Option<Conflict> {
    if let (Some(one), Some(other)) = (&one.target_ref, &other.target_ref) {
        return (Workload::from(one) == Workload::from(other)).then_some(Conflict::Target);
    }
    match (&one.selector, &other.selector) {
        (Some(one), Some(other)) => loosely_overlap(one, other).then_some(Conflict::Selector),
        _ => None,
    }
}

fn required(path: &str, message: &str) -> FieldError {
    FieldError::required(FieldPath::new(path), message)
}

fn invalid(path: &str, value: &impl Serialize, message: &str) -> FieldError {
    let shown = serde_json::to_string(value).unwrap_or_default();
    FieldError::invalid_value(FieldPath::new(path), shown, message)
}
