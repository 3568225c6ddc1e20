//! Validation of WorkloadSpreads (docs/behaviour/workloadspread.md#validation). Paths are those of v1beta1, in
//! whatever version the object came.

use std::borrow::Cow;

use api::features::FeatureGates;
use api::kinds::shared::{ScheduleStrategyType, TargetReference};
use api::kinds::workloadspread::{API_VERSION, WorkloadSpread};
use serde_json::{Value, json};

use super::custom::{BUILT_IN, CustomWorkloads, is_built_in};
use super::spread::Spread;
use crate::workload::submitted;
use crate::workload::target::Workload;
use crate::workload::trials::Trials;
use crate::workload::validation::keep_new;
use pod::template::metadata::validate_selector;
use values::field::{FieldError, FieldPath};
use values::read::from_str;
use values::verdict::{Denial, Verdict, refused};

mod subsets;
#[cfg(test)]
mod tests;

/// The HTTP status code with which an object is refused.
const REFUSAL: u16 = 400;
/// The most seconds for which Pods may be left without a node where there are further subsets.
const MAX_CRITICAL_SECONDS: i32 = 3600;

/// What validation reads beside the object.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The WorkloadSpreads of the namespace.
    pub others: &'a [Spread],
    /// The listed workloads, or what is wrong with the list.
    pub custom: Result<&'a CustomWorkloads, &'a str>,
    /// The target as it is stored; `None` where there is none, or its template is not known to be one.
    pub target: Option<&'a Value>,
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// The flag `--allow-privileged`.
    pub allow_privileged: bool,
}

/// A submitted object, whose target is to be read before its review.
///
/// # Errors
/// A denial with code 400 for whatever can't be read.
pub fn target(object: &str) -> Result<Spread, Denial> {
    let object = in_hub_version(object, "")?;
    Spread::read(&object).map_err(|error| match from_str::<WorkloadSpread>(&object) {
        Err(named) => refused(named),
        Ok(_) => refused(error),
    })
}

/// What the API server is asked about the patches of an object that is created or, with `old`, updated.
pub fn trials(new: &str, old: Option<&str>, target: Option<&Value>) -> Trials {
    let read = |object| read(object, "").ok();
    let spreads = read(new).zip(target);
    let list = spreads.map(|(new, target)| subsets::trials(&new, old.and_then(read).as_ref(), target));
    Trials { code: REFUSAL, list: list.unwrap_or_default() }
}

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    let new = match read(new, "") {
        Ok(new) => new,
        Err(denial) => return denial.into(),
    };
    let old = match old.map(|old| read(old, "old ")).transpose() {
        Ok(old) => old,
        Err(denial) => return denial.into(),
    };
    let mut errors = validate(&new, context);
    if let Some(old) = &old {
        keep_new(&mut errors, || validate(old, context));
        let [new, old] = [&new, old].map(|spread| Workload::from(&spread.spec.target_ref));
        if new != old {
            let message = "change TargetReference is not permitted for WorkloadSpread";
            errors.push(FieldError::invalid(target_path(), &new.name, message));
        }
    }
    Verdict::of(&errors, REFUSAL, Vec::new())
}

/// Reads an object in either version; `which` is a word for messages.
fn read(object: &str, which: &str) -> Result<WorkloadSpread, Denial> {
    from_str(&in_hub_version(object, which)?).map_err(refused)
}

fn in_hub_version<'o>(object: &'o str, which: &str) -> Result<Cow<'o, str>, Denial> {
    submitted::in_hub_version(object, API_VERSION).map_err(|denial| Denial {
        message: format!("failed to convert {which}v1alpha1 WorkloadSpread to v1beta1: {}", denial.message),
        ..denial
    })
}

fn validate(spread: &WorkloadSpread, context: &Context<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_target(spread, context, &mut errors);
    subsets::validate(spread, context, &mut errors);
    validate_strategy(spread, &mut errors);
    let filter = spread.spec.target_filter.as_ref().and_then(|filter| filter.selector.as_ref());
    if let Some(selector) = filter {
        validate_selector(selector, &FieldPath::new("spec.targetFilter.selector"), &mut errors);
    }
    validate_others(spread, context, &mut errors);
    errors
}

fn target_path() -> FieldPath {
    FieldPath::new("spec.targetRef")
}

fn validate_target(spread: &WorkloadSpread, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let target = &spread.spec.target_ref;
    if *target == TargetReference::default() {
        errors.push(FieldError::required(target_path(), "no targetRef defined in WorkloadSpread"));
        return;
    }
    let mut refuse =
        |message: String| errors.push(FieldError::invalid_value(target_path(), json!(target), message));
    if [&target.api_version, &target.kind, &target.name].iter().any(|text| text.is_empty()) {
        refuse("empty TargetReference is not valid for WorkloadSpread.".to_owned());
        return;
    }
    let workload = Workload::from(target);
    if BUILT_IN.iter().any(|(_, kind)| workload.kind == *kind) {
        if !is_built_in(&workload) {
            refuse(format!("TargetReference is not valid for {}.", workload.kind));
        }
        return;
    }
    match context.custom {
        Ok(custom) if custom.get(&workload.group, &workload.kind).is_some() => {}
        Ok(_) => refuse("TargetReference's GroupKind is not permitted.".to_owned()),
        Err(problem) => errors.push(FieldError::internal(target_path(), problem)),
    }
}

fn validate_strategy(spread: &WorkloadSpread, errors: &mut Vec<FieldError>) {
    let strategy = &spread.spec.schedule_strategy;
    let path = FieldPath::new("spec.scheduleStrategy");
    if let Some(ScheduleStrategyType::Other(word)) = &strategy.kind {
        errors.push(FieldError::invalid(path.child("type"), word, "ScheduleStrategy's type is not valid"));
    }
    let Some(adaptive) = &strategy.adaptive else { return };
    if strategy.kind != Some(ScheduleStrategyType::Adaptive) {
        let message = "the scheduleStrategy's type must be adaptive when using adaptive scheduleStrategy";
        errors.push(FieldError::invalid_value(path.child("type"), json!(strategy.kind), message));
    }
    let subsets = &spread.spec.subsets;
    if subsets.len() > 1 && subsets.last().is_some_and(|last| last.max_replicas.is_some()) {
        let message =
            "the last subset's maxReplicas must be not specified when using adaptive scheduleStrategy";
        errors.push(FieldError::invalid_value(path.child("adaptive"), json!(adaptive), message));
    }
    let Some(seconds) = adaptive.reschedule_critical_seconds else { return };
    let limit = if subsets.len() > 1 { MAX_CRITICAL_SECONDS } else { i32::MAX };
    if !(0..=limit).contains(&seconds) {
        let message =
            format!("rescheduleCriticalSeconds < 0 or rescheduleCriticalSeconds > {limit} is not permitted");
        let path = path.child("adaptive").child("rescheduleCriticalSeconds");
        errors.push(FieldError::invalid_value(path, seconds, message));
    }
}

/// A workload is divided by one WorkloadSpread.
fn validate_others(spread: &WorkloadSpread, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let target = Workload::from(&spread.spec.target_ref);
    let conflicts = |other: &&Spread| other.name() != spread.metadata.name && *other.target() == target;
    if let Some(other) = context.others.iter().filter(|_| !target.name.is_empty()).find(conflicts) {
        let message = format!("ws.spec.targetRef is in conflict with other WorkloadSpread {}", other.name());
        errors.push(FieldError::invalid_value(target_path(), json!(spread.spec.target_ref), message));
    }
}
