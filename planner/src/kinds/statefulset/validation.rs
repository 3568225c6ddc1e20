//! What a StatefulSet may say (docs/behaviour/statefulset.md#validation). Both versions obey the same rules under the
//! same paths.
//!
//! ```text
//!   strategy    update strategy, scale strategy, reserved ordinals
//!   claims      claim templates, and what of them may change where claims grow
//! ```

use api::features::FeatureGates;
use api::kinds::shared::PodUpdatePolicy;
use api::kinds::statefulset::{API_VERSION, KIND, StatefulSet};
use serde_json::Value;

use crate::pod::inplace::Reason;
use crate::pod::template::complete::with_defaults;
use crate::pod::template::metadata::validate_metadata;
use crate::pod::template::names;
use crate::pod::template::{Depth, RestartPolicy, TemplateRules, validate_template};
use crate::text::field::{FieldError, FieldPath};
use crate::text::selector::Selector;
use crate::text::verdict::{Denial, Verdict};
use crate::workload::storage_class::StorageClasses;
use crate::workload::submitted::{in_hub_version, leaves_spec};
use crate::workload::validation::{self, Rules, is_same_selector, negative, unchangeable, validate_selector};

mod claims;
mod strategy;
#[cfg(test)]
mod tests;

/// A StatefulSet of a request: as it was sent, and as it is stored.
#[derive(Clone, Debug)]
struct Submitted {
    sent: Value,
    /// In v1beta1.
    set: StatefulSet,
}

impl Submitted {
    fn read(object: &str) -> Result<Self, Denial> {
        let unreadable = |error: serde_json::Error| Denial { code: 400, message: error.to_string() };
        let set = serde_json::from_str(&in_hub_version(object, API_VERSION)?).map_err(unreadable)?;
        Ok(Self { sent: serde_json::from_str(object).map_err(unreadable)?, set })
    }

    /// A member of `spec` that is not null.
    fn given(&self, pointer: &str) -> Option<&Value> {
        self.sent.pointer(pointer).filter(|value| !value.is_null())
    }

    fn policy(&self) -> PodUpdatePolicy {
        self.set.spec.update_strategy.rolling_update.pod_update_policy.clone().unwrap_or_default()
    }
}

/// What validation reads beside the object.
pub struct Context<'a> {
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// The flag `--allow-privileged`.
    pub allow_privileged: bool,
    /// The StorageClasses; none where they are not known.
    pub storage_classes: Option<&'a StorageClasses>,
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

    fn read(&self, object: &str) -> Result<Submitted, Denial> {
        Submitted::read(object)
    }

    fn sent<'t>(&self, object: &'t Submitted) -> &'t Value {
        &object.sent
    }

    fn validate(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<FieldError> {
        validate(new, old, self)
    }

    fn warnings(&self, _new: &Submitted, _old: Option<&Submitted>) -> Vec<String> {
        Vec::new()
    }
}

fn validate(new: &Submitted, old: Option<&Submitted>, context: &Context<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &new.set.spec;
    validate_metadata(&new.sent, &mut errors);
    let name = &new.set.metadata.name;
    // The names of Pods are their host names.
    let problems = if name.is_empty() { Vec::new() } else { names::dns_label(name) };
    let path = FieldPath::new("metadata.name");
    errors.extend(problems.into_iter().map(|problem| FieldError::invalid(path.clone(), name, problem)));
    strategy::validate(new, &mut errors);
    claims::validate_retention(new, &mut errors);
    for (path, number) in [
        ("spec.replicas", spec.replicas),
        ("spec.revisionHistoryLimit", spec.revision_history_limit),
        ("spec.ordinals.start", spec.ordinals.start),
    ] {
        errors
            .extend(number.filter(|number| *number < 0).map(|number| negative(FieldPath::new(path), number)));
    }
    validate_selector(&new.sent, &spec.selector, "statefulset", &mut errors);
    validate_pod_template(new, context, &mut errors);
    if let Some(old) = old {
        validate_update(new, old, context, &mut errors);
    }
    errors
}

fn validate_pod_template(new: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.template";
    let Some(template) = new.given("/spec/template") else {
        errors.push(FieldError::required(FieldPath::new(PATH), ""));
        return;
    };
    // One that is not sound is reported as a selector.
    let selector = Selector::compile(&new.set.spec.selector).ok();
    let rules = TemplateRules {
        path: FieldPath::new(PATH),
        depth: Depth::Shallow,
        restart_policy: RestartPolicy::Always { kind: "StatefulSet" },
        selector: selector.as_ref(),
        allow_privileged: context.allow_privileged,
    };
    errors.extend(validate_template(&with_defaults(template, context.gates), &rules));
}

/// The only fields of `spec` that may not change are the selector, the name of the Service, and how Pods are managed.
const IMMUTABLE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
    'reserveOrdinals', 'lifecycle', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy', \
    'scaleStrategy', 'volumeClaimTemplates', 'volumeClaimUpdateStrategy' and 'updateStrategy' are forbidden";

fn validate_update(new: &Submitted, old: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let (spec, before) = (&new.set.spec, &old.set.spec);
    let management = |policy: &Option<_>| -> api::kinds::statefulset::PodManagementPolicy {
        policy.clone().unwrap_or_default()
    };
    if !is_same_selector(&spec.selector, &before.selector)
        || spec.service_name != before.service_name
        || management(&spec.pod_management_policy) != management(&before.pod_management_policy)
    {
        errors.push(FieldError::forbidden(FieldPath::new("spec"), IMMUTABLE));
    }
    claims::validate_update(new, old, context, errors);
    if new.policy() == PodUpdatePolicy::InPlaceOnly {
        errors.extend(validate_in_place(new, old, context.gates));
    }
}

/// Under InPlaceOnly a change that needs a new Pod is refused, with the place of the change.
fn validate_in_place(new: &Submitted, old: &Submitted, gates: &FeatureGates) -> Option<FieldError> {
    let reason = unchangeable(old.set.spec.template.as_ref(), new.set.spec.template.as_ref(), gates)?;
    let change = match reason {
        Reason::Unchangeable { operation, path } | Reason::GateOff { operation, path } => {
            let path = path.strip_prefix("/spec").unwrap_or(&path);
            format!("{operation} {path}")
        }
        other => other.to_string(),
    };
    let message = format!(
        "invalid template modified with InPlaceOnly strategy: {change}, currently only image update is allowed \
         for InPlaceOnly"
    );
    Some(FieldError::forbidden(FieldPath::new("spec.template"), message))
}
