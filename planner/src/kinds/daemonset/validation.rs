//! What a DaemonSet may say (docs/behaviour/daemonset.md#validation). Both versions obey the same rules under the same
//! paths.

use api::features::FeatureGates;
use api::kinds::daemonset::{API_VERSION, DaemonSet, KIND};
use serde_json::Value;

use crate::pod::template::complete::with_defaults;
use crate::pod::template::metadata::validate_metadata;
use crate::pod::template::names;
use crate::pod::template::{Depth, RestartPolicy, TemplateRules, validate_template};
use crate::text::field::{FieldError, FieldPath};
use crate::text::selector::Selector;
use crate::text::verdict::{Denial, Verdict};
use crate::workload::submitted::{in_hub_version, leaves_spec};
use crate::workload::validation::{self, Rules, is_same_selector, negative, validate_selector};

mod strategy;
#[cfg(test)]
mod tests;

/// A DaemonSet of a request: as it was sent, and as it is stored.
#[derive(Clone, Debug)]
struct Submitted {
    sent: Value,
    /// In v1beta1.
    set: DaemonSet,
}

impl Submitted {
    fn read(object: &str) -> Result<Self, Denial> {
        let unreadable = |error: serde_json::Error| Denial { code: 400, message: error.to_string() };
        let set = serde_json::from_str(&in_hub_version(object, API_VERSION)?).map_err(unreadable)?;
        Ok(Self { sent: serde_json::from_str(object).map_err(unreadable)?, set })
    }

    /// A member that is not null.
    fn given(&self, pointer: &str) -> Option<&Value> {
        self.sent.pointer(pointer).filter(|value| !value.is_null())
    }

    fn is_alpha(&self) -> bool {
        let version = self.sent.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        version.ends_with("/v1alpha1")
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
    const REFUSALS: (u16, u16) = (500, 422);

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
    let problems = if name.is_empty() { Vec::new() } else { names::dns_subdomain(name) };
    let path = FieldPath::new("metadata.name");
    errors.extend(problems.into_iter().map(|problem| FieldError::invalid(path.clone(), name, problem)));
    validate_selector(&new.sent, &spec.selector, "daemonset", &mut errors);
    validate_pod_template(new, context, &mut errors);
    for (path, number) in [
        ("spec.minReadySeconds", spec.min_ready_seconds),
        ("spec.revisionHistoryLimit", spec.revision_history_limit),
    ] {
        errors
            .extend(number.filter(|number| *number < 0).map(|number| negative(FieldPath::new(path), number)));
    }
    strategy::validate(new, &mut errors);
    if spec.lifecycle.in_place_update.is_some() {
        let path = FieldPath::new("spec.lifecycle.inPlaceUpdate");
        errors.push(FieldError::forbidden(path, "inPlaceUpdate hook has not supported yet"));
    }
    if let Some(old) = old
        && !is_same_selector(&spec.selector, &old.set.spec.selector)
    {
        let message = if new.is_alpha() { IMMUTABLE_ALPHA } else { IMMUTABLE };
        errors.push(FieldError::forbidden(FieldPath::new("spec"), message));
    }
    errors
}

/// The only field of `spec` that may not change is the selector.
const IMMUTABLE: &str = "updates to daemonset spec for fields other than 'BurstReplicas', 'template', 'lifecycle', \
    'scaleStrategy', 'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit' are forbidden";
/// The same of v1alpha1, with its two spaces.
const IMMUTABLE_ALPHA: &str = "updates to daemonset spec for fields other than 'BurstReplicas', 'template', \
    'lifecycle',  'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit' are forbidden";

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
        depth: Depth::Full,
        restart_policy: RestartPolicy::Always { kind: "DaemonSet" },
        selector: selector.as_ref(),
        allow_privileged: context.allow_privileged,
    };
    errors.extend(validate_template(&with_defaults(template, context.gates), &rules));
}
