//! What a UnitedDeployment may say (docs/behaviour/uniteddeployment.md#validation). Both versions obey the same rules
//! under the same paths.
//!
//! ```text
//!   subsets     names, Nodes, and how many Pods each gets     template    the template of the workloads
//! ```

use api::features::FeatureGates;
use api::kinds::shared::ScheduleStrategyType;
use api::kinds::uniteddeployment::{API_VERSION, KIND, UnitedDeployment};
use serde_json::Value;

use super::children::ChildKind;
use super::{Strategy, strategy};
use crate::pod::template::metadata::validate_metadata;
use crate::text::field::{FieldError, FieldPath};
use crate::text::verdict::{Denial, Verdict};
use crate::workload::submitted::{in_hub_version, leaves_spec};
use crate::workload::validation::{self, Rules, is_same_selector, negative, validate_selector};

mod subsets;
mod template;
#[cfg(test)]
mod tests;

/// Longer names make names of revisions that are no values of labels.
const LONGEST_NAME: usize = 52;

/// A UnitedDeployment of a request: as it was sent, and as it is stored.
#[derive(Clone, Debug)]
struct Submitted {
    sent: Value,
    /// In v1beta1.
    united: UnitedDeployment,
    /// The same as a value.
    stored: Value,
}

impl Submitted {
    fn read(object: &str) -> Result<Self, Denial> {
        let unreadable = |error: serde_json::Error| Denial { code: 400, message: error.to_string() };
        let stored = in_hub_version(object, API_VERSION)?;
        Ok(Self {
            sent: serde_json::from_str(object).map_err(unreadable)?,
            united: serde_json::from_str(&stored).map_err(unreadable)?,
            stored: serde_json::from_str(&stored).map_err(unreadable)?,
        })
    }

    /// The template of a kind of workload, as it is stored.
    fn template(&self, kind: ChildKind) -> Option<&Value> {
        let template = self.stored.pointer("/spec/template").and_then(|template| template.get(kind.member()));
        template.filter(|template| !template.is_null())
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
    let spec = &new.united.spec;
    validate_metadata(&new.sent, &mut errors);
    let name = &new.united.metadata.name;
    if name.len() > LONGEST_NAME {
        let message = format!("must be no more than {LONGEST_NAME} characters: revisions are named after it");
        errors.push(FieldError::invalid(FieldPath::new("metadata.name"), name, message));
    }
    if let Some(replicas) = spec.replicas.filter(|replicas| *replicas < 0) {
        errors.push(negative(FieldPath::new("spec.replicas"), replicas));
    }
    validate_selector(&new.sent, &spec.selector, "statefulset", &mut errors);
    template::validate(new, context, &mut errors);
    subsets::validate(spec, &mut errors);
    validate_strategies(new, &mut errors);
    if let Some(old) = old {
        validate_update(new, old, &mut errors);
    }
    errors
}

fn validate_strategies(new: &Submitted, errors: &mut Vec<FieldError>) {
    let spec = &new.united.spec;
    let is_stateful = ChildKind::of(&spec.template).is_some_and(|kind| !kind.is_stateless());
    if strategy(spec) == Strategy::Reserving && is_stateful {
        let message =
            "only stateless workloads (Deployment and CloneSet) are supported by reserved rescheduling";
        let kind = spec.topology.schedule_strategy.kind.as_ref();
        let word = if kind == Some(&ScheduleStrategyType::Adaptive) { "Adaptive" } else { "" };
        errors.push(FieldError::invalid(FieldPath::new("spec.topology.scheduleStrategy"), word, message));
    }
    let update = &spec.update_strategy;
    if !matches!(update.kind.as_str(), "" | "Manual") {
        let path = FieldPath::new("spec.updateStrategy.type");
        errors.push(FieldError::not_supported(path, &update.kind, &["Manual"]));
    }
    let path = FieldPath::new("spec.updateStrategy.manualUpdate.partitions");
    for (name, partition) in &update.manual_update.partitions {
        if !spec.topology.subsets.iter().any(|subset| subset.name == *name) {
            let message = format!("subset {name} does not exist");
            errors.push(FieldError::invalid(path.clone(), name, message));
        }
        if *partition < 0 {
            errors.push(negative(path.key(name), *partition));
        }
    }
}

fn validate_update(new: &Submitted, old: &Submitted, errors: &mut Vec<FieldError>) {
    let (spec, before) = (&new.united.spec, &old.united.spec);
    if !is_same_selector(&spec.selector, &before.selector) {
        let message = "may not be changed in an update: the workloads of its subsets are found by it";
        errors.push(FieldError::forbidden(FieldPath::new("spec.selector"), message));
    }
    subsets::validate_update(spec, before, errors);
    template::validate_update(new, old, errors);
}
