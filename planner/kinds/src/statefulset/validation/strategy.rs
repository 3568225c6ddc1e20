//! The update strategy, the scale strategy and reserved ordinals of a StatefulSet
//! (docs/behaviour/statefulset.md#validation).

use api::conditions::IN_PLACE_UPDATE_READY;
use api::kinds::shared::{IntOrString, PodUpdatePolicy, UpdateStrategyType};
use api::kinds::statefulset::PodManagementPolicy;
use serde_json::Value;

use super::Submitted;
use crate::workload::update_order::validation::validate_priority;
use crate::workload::validation::{invalid_share, negative};
use values::field::{FieldError, FieldPath};
use values::json_patch;
use values::percent::{Rounding, scaled};

const STRATEGY: &str = "spec.updateStrategy";
const MAX_MIN_READY_SECONDS: i32 = 300;

pub(super) fn validate(new: &Submitted, errors: &mut Vec<FieldError>) {
    let spec = &new.stored.spec;
    let path = FieldPath::new("spec.podManagementPolicy");
    match &spec.pod_management_policy {
        Some(PodManagementPolicy::Other(policy)) => {
            errors.push(FieldError::invalid(path, policy, "must be 'OrderedReady' or 'Parallel'"));
        }
        Some(_) => {}
        None => errors.push(FieldError::required(path, "")),
    }
    validate_reserved(&spec.reserve_ordinals, errors);
    if let Some(limit) = &spec.scale_strategy.max_unavailable {
        let path = FieldPath::new("spec.scaleStrategy.maxUnavailable");
        validate_limit(limit, &path, errors);
        // Pods that are managed one after another are created one at a time.
        if !is_parallel(new) && *limit != IntOrString::Int(1) {
            let message = "can only work with Parallel PodManagementPolicyType";
            errors.push(invalid_share(path, limit, message));
        }
    }
    let path = FieldPath::new(STRATEGY);
    let rolling = new.given("/spec/updateStrategy/rollingUpdate");
    match &spec.update_strategy.kind {
        None => errors.push(FieldError::required(path, "")),
        Some(UpdateStrategyType::Other(kind)) => {
            errors.push(FieldError::invalid(path, kind, "must be 'RollingUpdate' or 'OnDelete'"));
        }
        Some(UpdateStrategyType::OnDelete) => {
            if let Some(rolling) = rolling {
                let message = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(FieldError::invalid_value(path.child("rollingUpdate"), rolling, message));
            }
        }
        Some(UpdateStrategyType::RollingUpdate) if rolling.is_some() => {
            validate_rolling(new, &path.child("rollingUpdate"), errors);
        }
        Some(UpdateStrategyType::RollingUpdate) => {}
    }
}

/// Each entry is a number, or a range with both ends. What is too large to be an ordinal reserves none.
fn validate_reserved(entries: &[IntOrString], errors: &mut Vec<FieldError>) {
    let path = || FieldPath::new("spec");
    for (index, entry) in entries.iter().enumerate() {
        match entry {
            IntOrString::Int(number) if *number < 0 => {
                let message = format!("{index} th reserve ordinal is negative: {number}");
                errors.push(FieldError::invalid_value(path(), number, message));
            }
            IntOrString::Int(_) => {}
            IntOrString::String(text) => {
                if !is_range(text) {
                    let message = format!("{index} th reserve ordinal is not a valid range: {text}");
                    errors.push(FieldError::invalid(path(), text, message));
                }
                if let Err(problem) = read_range(text) {
                    let message = format!("{index} th reserve ordinal is invalid: {text}, err = {problem}");
                    errors.push(FieldError::invalid(path(), text, message));
                }
            }
        }
    }
}

fn is_range(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(first, last)| is_number(first) && is_number(last))
}

fn read_range(text: &str) -> Result<(), String> {
    let (first, last) = text.split_once('-').ok_or("a range is two numbers with - between them")?;
    let number = |part: &str| part.parse::<i64>().map_err(|error| format!("{part:?}: {error}"));
    if number(first)? > number(last)? {
        return Err("the start of a range is not larger than its end".to_owned());
    }
    Ok(())
}

fn validate_rolling(new: &Submitted, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let rolling = &new.stored.spec.update_strategy.rolling_update;
    if let Some(partition) = rolling.partition.filter(|partition| *partition < 0) {
        errors.push(negative(path.child("partition"), partition));
    }
    let seconds = rolling.min_ready_seconds.unwrap_or(0);
    if seconds < 0 {
        errors.push(negative(path.child("minReadySeconds"), seconds));
    } else if seconds > MAX_MIN_READY_SECONDS {
        let message = format!("must be no more than {MAX_MIN_READY_SECONDS} seconds");
        errors.push(FieldError::invalid_value(path.child("minReadySeconds"), seconds, message));
    }
    match &rolling.max_unavailable {
        None => errors.push(FieldError::required(path.child("maxUnavailable"), "")),
        Some(limit) => validate_limit(limit, &path.child("maxUnavailable"), errors),
    }
    let policy = path.child("podUpdatePolicy");
    match &rolling.pod_update_policy {
        None => errors.push(FieldError::required(policy, "")),
        Some(PodUpdatePolicy::Other(text)) => {
            let message = "must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'";
            errors.push(FieldError::invalid(policy, text, message));
        }
        Some(PodUpdatePolicy::ReCreate) => {}
        Some(PodUpdatePolicy::InPlaceIfPossible) => validate_gate(new, "InPlaceIfPossible", errors),
        Some(PodUpdatePolicy::InPlaceOnly) => validate_gate(new, "InPlaceOnly", errors),
    }
    if let Some(unordered) = &rolling.unordered_update {
        let at = path.child("unorderedUpdate");
        if !is_parallel(new) {
            let message = "unorderedUpdate can only work with Parallel PodManagementPolicyType";
            errors.push(FieldError::required(at.clone(), message));
        }
        validate_priority(&unordered.priority_strategy, &at.child("priorityStrategy"), errors);
    }
}

fn is_parallel(new: &Submitted) -> bool {
    new.stored.spec.pod_management_policy == Some(PodManagementPolicy::Parallel)
}

/// Pods that are updated in place leave their services by a readiness gate, which nobody adds.
fn validate_gate(new: &Submitted, policy: &str, errors: &mut Vec<FieldError>) {
    let gates = new.sent.pointer("/spec/template/spec/readinessGates").unwrap_or(&Value::Null);
    let is_gate =
        |gate: &Value| gate.get("conditionType").and_then(Value::as_str) == Some(IN_PLACE_UPDATE_READY);
    if !gates.as_array().is_some_and(|gates| gates.iter().any(is_gate)) {
        let path = FieldPath::new("spec.template.spec.readinessGates");
        let message = format!("must contains {IN_PLACE_UPDATE_READY} when podUpdatePolicy is {policy}");
        errors.push(FieldError::invalid_value(path, gates, message));
    }
}

/// A number of Pods, or a percentage of them.
fn validate_limit(limit: &IntOrString, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut invalid = |message: &str| errors.push(invalid_share(path.clone(), limit, message));
    match limit {
        IntOrString::Int(number) if *number < 0 => invalid("must be greater than or equal to 0"),
        IntOrString::Int(_) => {}
        IntOrString::String(text) => {
            let digits = text.strip_suffix('%');
            if !digits
                .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
            {
                invalid("a valid percent string must be a numeric string followed by an ending '%'");
            }
        }
    }
    match scaled(limit, 1, Rounding::Up) {
        Some(number) if number < 1 => invalid("should not be less than 1"),
        Some(_) => {}
        None => {
            let shown = match limit {
                IntOrString::String(text) => json_patch::string(text),
                IntOrString::Int(number) => number.to_string(),
            };
            invalid(&format!("getValueFromIntOrPercent error: invalid value {shown}: it is no percentage"));
        }
    }
}
