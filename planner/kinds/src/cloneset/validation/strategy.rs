//! The update strategy and the numbers of a CloneSet (docs/behaviour/cloneset.md#validation).

use api::kinds::cloneset::RollingUpdate;
use api::kinds::shared::{IntOrString, PodUpdatePolicy};
use serde_json::Value;

use super::Submitted;
use crate::cloneset::counting::is_on_delete;
use crate::workload::update_order::validation::{validate_priority, validate_scatter};
use crate::workload::validation::{invalid_share, negative};
use values::field::{FieldError, FieldPath};
use values::json_patch;
use values::percent::{Rounding, scaled};

const STRATEGY: &str = "spec.updateStrategy";
/// The value of `progressDeadlineSeconds` that switches the feature off.
const NO_DEADLINE: i32 = i32::MAX;

pub(super) fn validate(new: &Submitted, errors: &mut Vec<FieldError>) {
    validate_types(new, errors);
    let rolling = &new.stored.spec.update_strategy.rolling_update;
    let path = FieldPath::new(STRATEGY);
    let path = if new.is_alpha() { path } else { path.child("rollingUpdate") };
    // For OnDelete a block says nothing but how many new Pods are old, so what it lacks is no error.
    if !is_on_delete(&new.stored.spec) || *rolling != RollingUpdate::default() {
        validate_rolling(new, rolling, &path, errors);
    }
    validate_deadline(new, errors);
}

fn validate_types(new: &Submitted, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new(STRATEGY).child("type");
    let kind = new.given("/spec/updateStrategy/type").and_then(Value::as_str).unwrap_or_default();
    if new.is_alpha() {
        if !matches!(kind, "" | "ReCreate" | "InPlaceIfPossible" | "InPlaceOnly" | "OnDelete") {
            let message = "must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'";
            errors.push(FieldError::invalid(path, kind, message));
        }
        return;
    }
    if !matches!(kind, "" | "RollingUpdate" | "OnDelete") {
        errors.push(FieldError::invalid(path, kind, "must be 'RollingUpdate' or 'OnDelete'"));
    }
    if let PodUpdatePolicy::Other(policy) = new.policy() {
        let path = FieldPath::new(STRATEGY).child("rollingUpdate").child("podUpdatePolicy");
        let message = "must be 'ReCreate', 'InPlaceIfPossible' or 'InPlaceOnly'";
        errors.push(FieldError::invalid(path, &policy, message));
    }
}

fn validate_rolling(
    new: &Submitted,
    rolling: &RollingUpdate,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let replicas = new.stored.spec.replicas.unwrap_or(1).max(0);
    validate_partition(rolling, replicas, path, errors);
    validate_priority(&rolling.priority_strategy, &path.child("priorityStrategy"), errors);
    validate_scatter(&rolling.scatter_strategy, &path.child("scatterStrategy"), errors);
    let default = IntOrString::String("20%".to_owned());
    let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&default);
    let max_unavailable = share(unavailable, replicas, "maxUnavailable", path, errors);
    let surge = rolling.max_surge.as_ref().unwrap_or(&IntOrString::Int(0));
    let max_surge = share(surge, replicas, "maxSurge", path, errors);
    if max_surge > 0 && new.updates_only_in_place() {
        let field = if new.is_alpha() { "strategy type" } else { "podUpdatePolicy" };
        let message = format!("can not use maxSurge with {field} InPlaceOnly");
        errors.push(invalid_share(path.child("maxSurge"), surge, &message));
    }
    if replicas > 0 && max_unavailable < 1 && max_surge < 1 && !is_on_delete(&new.stored.spec) {
        let message = "maxUnavailable and maxSurge should not both be less than 1";
        errors.push(invalid_share(path.child("maxUnavailable"), unavailable, message));
    }
    if !new.is_alpha() {
        validate_pre_download(rolling, &path.child("inPlaceUpdateStrategy"), errors);
    }
}

/// A share of `replicas`, rounded up; 0 where it can't be read.
fn share(
    value: &IntOrString,
    replicas: i32,
    name: &str,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> i32 {
    let percentage = match value {
        IntOrString::Int(_) => true,
        IntOrString::String(text) => text.ends_with('%'),
    };
    match scaled(value, replicas, Rounding::Up).filter(|_| percentage) {
        Some(number) => number,
        None => {
            let problem = problem(value);
            let message = format!("failed GetScaledValueFromIntOrPercent for {name}: {problem}");
            errors.push(invalid_share(path.child(name), value, &message));
            0
        }
    }
}

fn problem(value: &IntOrString) -> String {
    match value {
        IntOrString::String(text) if text.ends_with('%') => {
            let text = json_patch::string(text);
            format!(
                "invalid value for IntOrString: invalid value {text}: it is not a percentage of 0 or more"
            )
        }
        _ => "invalid type: string is not a percentage".to_owned(),
    }
}

fn validate_partition(
    rolling: &RollingUpdate,
    replicas: i32,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some(partition) = &rolling.partition else { return };
    match partition {
        IntOrString::Int(number) if *number < 0 => {
            errors.push(negative(path.child("partition"), *number));
        }
        partition => {
            share(partition, replicas, "partition", path, errors);
        }
    }
}

fn validate_pre_download(rolling: &RollingUpdate, path: &FieldPath, errors: &mut Vec<FieldError>) {
    const PARALLELISM: &str = "imagePreDownloadParallelism";
    let strategy = &rolling.in_place_update_strategy;
    let at = path.child(PARALLELISM);
    let problem = match &strategy.image_pre_download_parallelism {
        None => None,
        Some(IntOrString::Int(number)) => (*number < 0).then(|| "must be non-negative".to_owned()),
        Some(IntOrString::String(text)) if text.ends_with('%') => {
            Some("does not support percentage value".to_owned())
        }
        Some(IntOrString::String(text)) => match text.parse::<i32>() {
            Ok(number) => (number < 0).then(|| "must be non-negative".to_owned()),
            Err(error) => Some(format!("must be a valid integer: {error}")),
        },
    };
    if let (Some(problem), Some(value)) = (problem, &strategy.image_pre_download_parallelism) {
        errors.push(invalid_share(at, value, &format!("{PARALLELISM} {problem}")));
    }
    for (name, value) in [
        ("imagePreDownloadTimeoutSeconds", strategy.image_pre_download_timeout_seconds),
        ("imagePreDownloadMinUpdatedReadyPods", strategy.image_pre_download_min_updated_ready_pods),
    ] {
        if let Some(number) = value.filter(|number| *number < 0) {
            errors.push(negative(path.child(name), number));
        }
    }
}

fn validate_deadline(new: &Submitted, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.progressDeadlineSeconds";
    let Some(deadline) = new.stored.spec.progress_deadline_seconds else { return };
    if deadline < 0 {
        errors.push(negative(FieldPath::new(PATH), deadline));
    }
    if deadline != NO_DEADLINE && deadline <= new.stored.spec.min_ready_seconds.unwrap_or(0) {
        let message = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid_value(FieldPath::new(PATH), deadline, message));
    }
}
