//! What a DaemonSet may say (docs/behaviour/daemonset.md#validation). Both versions obey the same rules under the same
//! paths.

use api::kinds::daemonset::{DaemonSet, RollingUpdateType};

use crate::workload::restart_on;
use crate::workload::submitted;
use crate::workload::trials::{self, Trials};
pub use crate::workload::validation::Context;
use crate::workload::validation::{
    self, Rules, is_same_selector, validate_numbers, validate_pod_template, validate_selector,
};
use pod::template::Depth;
use pod::template::metadata::validate_metadata;
use pod::template::names;
use pod::template::node::invalid;
use values::field::{FieldError, FieldPath};
use values::verdict::Verdict;

mod strategy;
#[cfg(test)]
mod tests;

type Submitted = submitted::Submitted<DaemonSet>;

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    validation::review::<DaemonSet, _>(context, new, old)
}

/// What the API server is asked about an object that is created or, with `old`, updated.
pub fn trials(new: &str, old: Option<&str>) -> Trials {
    trials::of::<DaemonSet, Context<'_>>(new, old)
}

impl Rules<DaemonSet> for Context<'_> {
    const REFUSALS: (u16, u16) = (500, 422);
    const JUDGED: &'static [&'static str] = &[""];

    fn validate(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &new.stored.spec;
        validate_metadata(&new.sent, &mut errors);
        let name = &new.stored.metadata.name;
        if !name.is_empty() {
            invalid(&FieldPath::new("metadata.name"), name, names::dns_subdomain(name), &mut errors);
        }
        validate_selector(&new.sent, &spec.selector, "daemonset", &mut errors);
        validate_pod_template(new, &spec.selector, ("DaemonSet", Depth::Full), self, &mut errors);
        let numbers = [
            ("spec.minReadySeconds", spec.min_ready_seconds),
            ("spec.revisionHistoryLimit", spec.revision_history_limit),
        ];
        validate_numbers(numbers, &mut errors);
        strategy::validate(new, &mut errors);
        restart_on::validate(&new.stored.metadata, &mut errors);
        if spec.lifecycle.in_place_update.is_some() {
            let path = FieldPath::new("spec.lifecycle.inPlaceUpdate");
            errors.push(FieldError::forbidden(path, "inPlaceUpdate hook has not supported yet"));
        }
        if let Some(old) = old
            && !is_same_selector(&spec.selector, &old.stored.spec.selector)
        {
            let message = if new.is_alpha() { IMMUTABLE_ALPHA } else { IMMUTABLE };
            errors.push(FieldError::forbidden(FieldPath::new("spec"), message));
        }
        errors
    }

    fn warnings(&self, new: &Submitted, _old: Option<&Submitted>) -> Vec<String> {
        let kind = &new.stored.spec.update_strategy.rolling_update.rolling_update_type;
        let in_place = *kind == Some(RollingUpdateType::InPlaceIfPossible);
        restart_on::idle(&new.sent, in_place, self.gates).into_iter().collect()
    }
}

/// The only field of `spec` that may not change is the selector.
const IMMUTABLE: &str = "updates to daemonset spec for fields other than 'BurstReplicas', 'template', 'lifecycle', \
    'scaleStrategy', 'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit' are forbidden";
/// The same of v1alpha1, with its two spaces.
const IMMUTABLE_ALPHA: &str = "updates to daemonset spec for fields other than 'BurstReplicas', 'template', \
    'lifecycle',  'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit' are forbidden";
