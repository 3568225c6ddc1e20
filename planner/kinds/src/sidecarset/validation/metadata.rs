//! The name, and the pair of a canary and its base (docs/behaviour/sidecarset.md#name-and-canary).

use api::annotations::{EVICT_MISSED_PODS, SIDECARSET_BASE};
use api::sidecarset::SidecarSet;

use super::{Context, Validation};
use crate::sidecarset::subject::eviction_limit;
use crate::workload::validation::validate_plain_name;
use values::field::{FieldError, FieldPath};

pub(super) fn validate(
    new: &SidecarSet,
    old: Option<&SidecarSet>,
    context: &Context<'_>,
    validation: &mut Validation,
) {
    let errors = &mut validation.errors;
    validate_plain_name(new.name(), "sidecarset", errors);
    validate_canary(new, old, context, errors);
    if let Some(text) = new.annotation(EVICT_MISSED_PODS)
        && let Err(message) = eviction_limit(text)
    {
        let path = FieldPath::new("metadata.annotations").key(EVICT_MISSED_PODS);
        errors.push(FieldError::invalid(path, text, message));
    }
}

fn validate_canary(
    new: &SidecarSet,
    old: Option<&SidecarSet>,
    context: &Context<'_>,
    errors: &mut Vec<FieldError>,
) {
    let annotation = new.annotation(SIDECARSET_BASE).unwrap_or_default();
    let mut refuse =
        |message: String| errors.push(FieldError::invalid(FieldPath::new("metadata"), annotation, message));
    let old_base = old.and_then(|old| old.canary_base()).filter(|base| !base.is_empty());
    if old_base.is_some_and(|base| base != annotation) {
        refuse(format!("annotations[{SIDECARSET_BASE}] is immutable"));
    }
    let Some(base) = new.canary_base().filter(|base| !base.is_empty()) else { return };
    if base == new.name() {
        refuse("base sidecarSet cannot be itself".to_owned());
    } else {
        match context.sidecar_sets.iter().find(|other| other.name() == base) {
            None => {
                refuse(format!(
                    "fetch base sidecarSet[{base}] failed: SidecarSet.apps.kruise.io \"{base}\" not found"
                ));
            }
            Some(other) if other.canary_base().is_some_and(|base| !base.is_empty()) => {
                refuse("base sidecarSet cannot be canary".to_owned());
            }
            Some(_) => {}
        }
    }
    if !new.spec.update_strategy.is_not_update() {
        refuse("RollingUpdate is not supported for canary sidecarSet".to_owned());
    }
}
