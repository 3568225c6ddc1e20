//! What a BroadcastJob may say (docs/behaviour/broadcastjob.md#validation).

use api::kinds::broadcastjob::{BroadcastJob, FailurePolicyType, KIND};
use api::kinds::shared::{CompletionPolicyType, IntOrString};
use api::labels::{BROADCAST_JOB_CONTROLLER_UID, BROADCAST_JOB_NAME};
use serde_json::Value;

use super::stays;
use crate::workload::submitted;
use crate::workload::trials::{self, Trials};
pub use crate::workload::validation::Context;
use crate::workload::validation::{self, Rules, invalid_share, validate_plain_name};
use pod::template::complete::with_defaults;
use pod::template::metadata::validate_metadata;
use pod::template::{Depth, RestartPolicy, TemplateRules, validate_template};
use values::field::{FieldError, FieldPath};
use values::percent::{Rounding, scaled};
use values::verdict::Verdict;

#[cfg(test)]
mod tests;

type Submitted = submitted::Submitted<BroadcastJob>;

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    validation::review::<BroadcastJob, _>(context, new, old)
}

/// What the API server is asked about an object that is created or, with `old`, updated.
pub fn trials(new: &str, old: Option<&str>) -> Trials {
    trials::of::<BroadcastJob, Context<'_>>(new, old)
}

impl Rules<BroadcastJob> for Context<'_> {
    const REFUSALS: (u16, u16) = (500, 500);
    const JUDGED: &'static [&'static str] = &[""];

    fn validate(&self, new: &Submitted, _old: Option<&Submitted>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate_plain_name(&new.stored.metadata.name, KIND, &mut errors);
        validate_metadata(&new.sent, &mut errors);
        validate_policies(&new.stored, &mut errors);
        if let Some(parallelism) = &new.stored.spec.parallelism {
            let path = FieldPath::new("spec.parallelism");
            match (parallelism, scaled(parallelism, 100, Rounding::Up)) {
                (IntOrString::Int(number), _) if *number < 0 => {
                    errors.push(invalid_share(path, parallelism, "must be greater than or equal to 0"));
                }
                (_, None) => {
                    errors.push(invalid_share(path, parallelism, "must be a number or a percentage"));
                }
                _ => {}
            }
        }
        validate_pod_template(new, self, &mut errors);
        errors
    }
}

fn validate_policies(job: &BroadcastJob, errors: &mut Vec<FieldError>) {
    let policy = &job.spec.completion_policy;
    let path = FieldPath::new("spec.completionPolicy");
    let numbers = [
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished.map(i64::from), 0),
        ("activeDeadlineSeconds", policy.active_deadline_seconds, 1),
    ];
    for (name, number, least) in numbers {
        let Some(number) = number else { continue };
        if stays(job) {
            let message = format!("{name} can just work with Always CompletionPolicyType");
            errors.push(FieldError::invalid_value(path.child(name), number, message));
        } else if number < least {
            let message = format!("must be greater than or equal to {least}");
            errors.push(FieldError::invalid_value(path.child(name), number, message));
        }
    }
    if let Some(CompletionPolicyType::Other(kind)) = &policy.kind {
        errors.push(FieldError::not_supported(path.child("type"), kind, &["Always", "Never"]));
    }
    if let Some(FailurePolicyType::Other(kind)) = &job.spec.failure_policy.kind {
        let path = FieldPath::new("spec.failurePolicy.type");
        errors.push(FieldError::not_supported(path, kind, &["FailFast", "Continue", "Pause"]));
    }
}

fn validate_pod_template(new: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.template";
    let Some(template) = new.given("/spec/template") else {
        errors.push(FieldError::required(FieldPath::new(PATH), ""));
        return;
    };
    let policy = template.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or_default();
    if !matches!(policy, "Never" | "OnFailure") {
        let path = FieldPath::new("spec.template.spec.restartPolicy");
        errors.push(FieldError::invalid(path, policy, "pod restartPolicy can only be Never or OnFailure"));
    }
    let label = |key: &str| template.get("metadata")?.get("labels")?.get(key)?.as_str();
    let preset = [BROADCAST_JOB_NAME, BROADCAST_JOB_CONTROLLER_UID];
    if preset.iter().any(|key| label(key).is_some_and(|value| !value.is_empty())) {
        let path = FieldPath::new("spec.template.metadata.labels");
        let shown = template.pointer("/metadata/labels").map(ToString::to_string).unwrap_or_default();
        let message = "\"broadcastjob-name\" and \"broadcastjob-controller-uid\" are not allowed to preset in pod labels";
        errors.push(FieldError::invalid_value(path, shown, message));
    }
    let rules = TemplateRules {
        path: FieldPath::new(PATH),
        depth: Depth::Full,
        restart_policy: RestartPolicy::Any,
        selector: None,
        allow_privileged: context.allow_privileged,
    };
    errors.extend(validate_template(&with_defaults(template, context.gates), &rules));
}
