//! What a StatefulSet may say (docs/behaviour/statefulset.md#validation). Both versions obey the same rules under the
//! same paths.
//!
//! ```text
//!   strategy    update strategy, scale strategy, reserved ordinals
//!   claims      claim templates, and what of them may change where claims grow
//! ```

use api::features::FeatureGates;
use api::kinds::shared::PodUpdatePolicy;
use api::kinds::statefulset::StatefulSet;

use crate::workload::new_pod::unmade_volumes;
use crate::workload::restart_on;
use crate::workload::storage_class::StorageClasses;
use crate::workload::submitted;
use crate::workload::validation::{
    self, Rules, is_same_selector, unchangeable, validate_numbers, validate_pod_template, validate_selector,
};
use pod::inplace::Reason;
use pod::template::Depth;
use pod::template::metadata::validate_metadata;
use pod::template::names;
use pod::template::node::invalid;
use values::field::{FieldError, FieldPath};
use values::verdict::Verdict;

mod claims;
mod strategy;
#[cfg(test)]
mod tests;

type Submitted = submitted::Submitted<StatefulSet>;

impl Submitted {
    fn policy(&self) -> PodUpdatePolicy {
        self.stored.spec.update_strategy.rolling_update.pod_update_policy.clone().unwrap_or_default()
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

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    validation::review::<StatefulSet, _>(context, new, old)
}

impl Rules<StatefulSet> for Context<'_> {
    fn validate(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &new.stored.spec;
        validate_metadata(&new.sent, &mut errors);
        let name = &new.stored.metadata.name;
        if !name.is_empty() {
            // The names of Pods are their host names.
            invalid(&FieldPath::new("metadata.name"), name, names::dns_label(name), &mut errors);
        }
        strategy::validate(new, &mut errors);
        claims::validate_retention(new, &mut errors);
        let numbers = [
            ("spec.replicas", spec.replicas),
            ("spec.revisionHistoryLimit", spec.revision_history_limit),
            ("spec.ordinals.start", spec.ordinals.start),
        ];
        validate_numbers(numbers, &mut errors);
        restart_on::validate(&new.stored.metadata, &mut errors);
        validate_selector(&new.sent, &spec.selector, "statefulset", &mut errors);
        let context = validation::Context { gates: self.gates, allow_privileged: self.allow_privileged };
        validate_pod_template(new, &spec.selector, ("StatefulSet", Depth::Shallow), &context, &mut errors);
        if let Some(old) = old {
            validate_update(new, old, self, &mut errors);
        }
        errors
    }

    fn warnings(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<String> {
        let unmade = |submitted: &Submitted| {
            let spec = &submitted.stored.spec;
            let unmade = unmade_volumes(spec.template.as_ref()?.get(), spec.volume_claim_templates.as_ref());
            unmade.into_iter().next()
        };
        let volume = unmade(new).filter(|volume| old.and_then(unmade).as_ref() != Some(volume));
        let warning = volume.map(|volume| {
            format!(
                "spec.template mounts volume {volume:?}, which is neither one of its volumes nor a claim template: \
                 Pods can't be created unless something adds it to them"
            )
        });
        let in_place = new.policy() != PodUpdatePolicy::ReCreate;
        warning.into_iter().chain(restart_on::idle(&new.sent, in_place, self.gates)).collect()
    }
}

/// The only fields of `spec` that may not change are the selector, the name of the Service, and how Pods are managed.
const IMMUTABLE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
    'reserveOrdinals', 'lifecycle', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy', \
    'scaleStrategy', 'volumeClaimTemplates', 'volumeClaimUpdateStrategy' and 'updateStrategy' are forbidden";

fn validate_update(new: &Submitted, old: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let (spec, before) = (&new.stored.spec, &old.stored.spec);
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
    let reason = unchangeable(old.stored.spec.template.as_ref(), new.stored.spec.template.as_ref(), gates)?;
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
