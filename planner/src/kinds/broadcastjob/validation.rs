//! What a BroadcastJob may say (docs/behaviour/broadcastjob.md#validation).

use api::features::FeatureGates;
use api::kinds::broadcastjob::{API_VERSION, BroadcastJob, FailurePolicyType, KIND};
use api::kinds::shared::{CompletionPolicyType, IntOrString};
use api::labels::{BROADCAST_JOB_CONTROLLER_UID, BROADCAST_JOB_NAME};
use serde_json::Value;

use super::stays;
use crate::pod::template::complete::with_defaults;
use crate::pod::template::metadata::validate_metadata;
use crate::pod::template::{Depth, RestartPolicy, TemplateRules, validate_template};
use crate::text::field::{FieldError, FieldPath};
use crate::text::percent::{Rounding, scaled};
use crate::text::verdict::{Denial, Verdict};
use crate::workload::submitted::{in_hub_version, leaves_spec};
use crate::workload::validation::{self, Rules, invalid_share, validate_plain_name};

#[cfg(test)]
mod tests;

/// A BroadcastJob of a request: as it was sent, and as it is stored.
#[derive(Clone, Debug)]
struct Submitted {
    sent: Value,
    job: BroadcastJob,
}

impl Submitted {
    fn read(object: &str) -> Result<Self, Denial> {
        let unreadable = |error: serde_json::Error| Denial { code: 400, message: error.to_string() };
        let job = serde_json::from_str(&in_hub_version(object, API_VERSION)?).map_err(unreadable)?;
        Ok(Self { sent: serde_json::from_str(object).map_err(unreadable)?, job })
    }
}

/// What validation reads beside the object.
pub struct Context<'a> {
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// The flag `--allow-privileged`.
    pub allow_privileged: bool,
}

/// The update leaves a spec as it is that can't be read.
pub(super) fn leaves_unreadable_spec(new: &str, old: Option<&str>) -> bool {
    leaves_spec(new, old) && Submitted::read(new).is_err()
}

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    validation::review(context, new, old)
}

impl Rules<Submitted> for Context<'_> {
    const KIND: &'static str = KIND;
    const REFUSALS: (u16, u16) = (500, 500);

    fn read(&self, object: &str) -> Result<Submitted, Denial> {
        Submitted::read(object)
    }

    fn sent<'t>(&self, object: &'t Submitted) -> &'t Value {
        &object.sent
    }

    fn validate(&self, new: &Submitted, _old: Option<&Submitted>) -> Vec<FieldError> {
        validate(new, self)
    }

    fn warnings(&self, _new: &Submitted, _old: Option<&Submitted>) -> Vec<String> {
        Vec::new()
    }
}

fn validate(new: &Submitted, context: &Context<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_plain_name(&new.job.metadata.name, KIND, &mut errors);
    validate_metadata(&new.sent, &mut errors);
    validate_policies(&new.job, &mut errors);
    if let Some(parallelism) = &new.job.spec.parallelism {
        let path = || FieldPath::new("spec.parallelism");
        match (parallelism, scaled(parallelism, 100, Rounding::Up)) {
            (IntOrString::Int(number), _) if *number < 0 => {
                errors.push(invalid_share(path(), parallelism, "must be greater than or equal to 0"));
            }
            (_, None) => errors.push(invalid_share(path(), parallelism, "must be a number or a percentage")),
            _ => {}
        }
    }
    validate_pod_template(new, context, &mut errors);
    errors
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
    let template = new.sent.pointer("/spec/template").filter(|template| !template.is_null());
    let Some(template) = template else {
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
