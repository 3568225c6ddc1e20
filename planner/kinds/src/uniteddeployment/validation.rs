//! What a UnitedDeployment may say (docs/behaviour/uniteddeployment.md#validation). Both versions obey the same rules
//! under the same paths.
//!
//! ```text
//!   subsets     names, Nodes, and how many Pods each gets     template    the template of the workloads
//! ```

use api::kinds::shared::ScheduleStrategyType;
use api::kinds::uniteddeployment::{API_VERSION, KIND, UnitedDeployment};
use serde_json::Value;

use super::children::ChildKind;
use super::{Strategy, strategy};
use crate::workload::submitted::{self, Stored};
use crate::workload::trials::{self, Trials};
pub use crate::workload::validation::Context;
use crate::workload::validation::{
    self, Rules, is_same_selector, negative, validate_numbers, validate_selector,
};
use pod::template::metadata::validate_metadata;
use values::field::{FieldError, FieldPath};
use values::read::from_str;
use values::verdict::{Denial, Verdict, refused};

mod subsets;
mod template;
#[cfg(test)]
mod tests;

/// Longer names make names of revisions that are no values of labels.
const LONGEST_NAME: usize = 52;

/// A UnitedDeployment as it is stored.
#[derive(Clone, Debug)]
pub(super) struct United {
    united: UnitedDeployment,
    /// The same as a value.
    value: Value,
}

impl Stored for United {
    const API_VERSION: &'static str = API_VERSION;
    const KIND: &'static str = KIND;

    const CLAIMS: &'static [&'static str] = &[
        "/spec/template/advancedStatefulSetTemplate/spec/volumeClaimTemplates",
        "/spec/template/cloneSetTemplate/spec/volumeClaimTemplates",
        "/spec/template/statefulSetTemplate/spec/volumeClaimTemplates",
    ];

    fn read(object: &str) -> Result<Self, Denial> {
        let united: UnitedDeployment = from_str(object).map_err(refused)?;
        Ok(Self { united, value: serde_json::from_str(object).map_err(refused)? })
    }

    fn check_templates(&self, old: Option<&Self>) -> Result<(), Denial> {
        let template = &self.united.spec.template;
        if old.is_some_and(|old| old.united.spec.template == *template) {
            return Ok(());
        }
        template::read(template).map_err(|error| refused(error.within("template").within("spec")))
    }
}

type Submitted = submitted::Submitted<United>;

impl Submitted {
    /// The template of a kind of workload, as it is stored.
    fn template(&self, kind: ChildKind) -> Option<&Value> {
        let template = self.stored.value.pointer("/spec/template")?.get(kind.member());
        template.filter(|template| !template.is_null())
    }
}

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    validation::review::<United, _>(context, new, old)
}

/// What the API server is asked about an object that is created or, with `old`, updated.
pub fn trials(new: &str, old: Option<&str>) -> Trials {
    trials::of::<United, Context<'_>>(new, old)
}

impl Rules<United> for Context<'_> {
    const JUDGED: &'static [&'static str] = &["/spec/template/deploymentTemplate"];

    fn validate(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let UnitedDeployment { metadata, spec, .. } = &new.stored.united;
        validate_metadata(&new.sent, &mut errors);
        let name = &metadata.name;
        if name.len() > LONGEST_NAME {
            let message =
                format!("must be no more than {LONGEST_NAME} characters: revisions are named after it");
            errors.push(FieldError::invalid(FieldPath::new("metadata.name"), name, message));
        }
        validate_numbers([("spec.replicas", spec.replicas)], &mut errors);
        validate_selector(&new.sent, &spec.selector, "statefulset", &mut errors);
        template::validate(new, self, &mut errors);
        subsets::validate(spec, &mut errors);
        validate_strategies(new, &mut errors);
        if let Some(old) = old {
            validate_update(new, old, &mut errors);
        }
        errors
    }
}

fn validate_strategies(new: &Submitted, errors: &mut Vec<FieldError>) {
    let spec = &new.stored.united.spec;
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
    let (spec, before) = (&new.stored.united.spec, &old.stored.united.spec);
    if !is_same_selector(&spec.selector, &before.selector) {
        let message = "may not be changed in an update: the workloads of its subsets are found by it";
        errors.push(FieldError::forbidden(FieldPath::new("spec.selector"), message));
    }
    subsets::validate_update(spec, before, errors);
    template::validate_update(new, old, errors);
}
