//! The update strategy of a DaemonSet, and its burst (docs/behaviour/daemonset.md#validation).

use api::kinds::daemonset::RollingUpdateType;
use api::kinds::shared::{IntOrString, UpdateStrategyType};

use super::Submitted;
use crate::workload::validation::invalid_share;
use pod::template::metadata::validate_selector;
use values::field::{FieldError, FieldPath};
use values::percent::{Rounding, scaled};

pub(super) fn validate(new: &Submitted, errors: &mut Vec<FieldError>) {
    let spec = &new.stored.spec;
    if let Some(burst) = &spec.burst_replicas {
        validate_share(burst, &FieldPath::new("spec.burstReplicas"), errors);
    }
    let path = FieldPath::new("spec.updateStrategy");
    match &spec.update_strategy.kind {
        Some(UpdateStrategyType::OnDelete) => {}
        Some(UpdateStrategyType::RollingUpdate)
            if new.given("/spec/updateStrategy/rollingUpdate").is_none() =>
        {
            errors.push(FieldError::required(path.child("rollingUpdate"), ""));
        }
        Some(UpdateStrategyType::RollingUpdate) => {
            validate_rolling(new, &path.child("rollingUpdate"), errors);
        }
        other => {
            let text = match other {
                Some(UpdateStrategyType::Other(text)) => text.as_str(),
                _ => "",
            };
            errors.push(FieldError::not_supported(path, text, &["RollingUpdate", "OnDelete"]));
        }
    }
}

fn validate_rolling(new: &Submitted, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let rolling = &new.stored.spec.update_strategy.rolling_update;
    let (unavailable, surge) = (rolling.max_unavailable.as_ref(), rolling.max_surge.as_ref());
    for (name, value) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
        if let Some(value) = value {
            validate_share(value, &path.child(name), errors);
        }
    }
    let is_positive = |value: Option<&IntOrString>| value.is_some_and(is_positive);
    let (has_unavailable, has_surge) = (is_positive(unavailable), is_positive(surge));
    if let Some(surge) = surge.filter(|_| has_unavailable && has_surge) {
        let message = "may not be set when maxUnavailable is non-zero";
        errors.push(invalid_share(path.child("maxSurge"), surge, message));
    }
    if !has_unavailable && !has_surge {
        errors.push(FieldError::required(path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"));
    }
    // These two paths are what clients know.
    let doubled = path.child("rollingUpdate");
    let sent = new.given("/spec/updateStrategy/rollingUpdate/rollingUpdateType");
    let is_surging = new.is_alpha() && sent.is_some_and(|kind| kind == "Surging");
    match &rolling.rolling_update_type {
        _ if is_surging && has_unavailable => {
            errors.push(FieldError::required(path.child("maxUnavailable"), "must be 0 for Surging type"));
        }
        Some(RollingUpdateType::InPlaceIfPossible) if has_surge => {
            errors.push(FieldError::required(path.child("maxSurge"), "must be 0 for InPlaceIfPossible type"));
        }
        Some(RollingUpdateType::Other(text)) => {
            let mut known = vec!["Standard", "InPlaceIfPossible"];
            known.extend(new.is_alpha().then_some("Surging"));
            errors.push(FieldError::not_supported(doubled.child("type"), text, &known));
        }
        _ => {}
    }
    if let Some(partition) = &rolling.partition {
        validate_share(partition, &doubled.child("partition"), errors);
    }
    if let Some(selector) = &rolling.selector {
        validate_selector(selector, &path.child("selector"), errors);
    }
}

/// A number from 0 on, or a percentage up to 100 %.
fn validate_share(value: &IntOrString, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut invalid = |message: &str| errors.push(invalid_share(path.clone(), value, message));
    match value {
        IntOrString::Int(number) if *number < 0 => invalid("must be greater than or equal to 0"),
        IntOrString::Int(_) => {}
        IntOrString::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                invalid(
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                     '93%', regex used for validation is '[0-9]+%')",
                );
            } else if digits.parse::<u64>().map_or(true, |share| share > 100) {
                invalid("must not be greater than 100%");
            }
        }
    }
}

fn is_positive(value: &IntOrString) -> bool {
    scaled(value, 100, Rounding::Up).is_some_and(|number| number > 0)
}
