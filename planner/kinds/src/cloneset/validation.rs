//! What a CloneSet may say (docs/behaviour/cloneset.md#validation).
//!
//! Both versions obey the same rules, each with its own paths and words; where OpenKruise checks something in
//! v1alpha1 only, it is checked in v1beta1 too, and where one of its checks is a slip, it is not made
//! (docs/behaviour/cloneset.md#validation).
//!
//! ```text
//!   template    the Pod template, and what of it may change under InPlaceOnly
//!   strategy    update strategy, scale strategy, numbers and percentages
//! ```

use std::collections::HashSet;

use api::annotations::SCALE_IN_ORDER;
use api::features::FeatureGates;
use api::kinds::cloneset::CloneSet;
use api::kinds::shared::PodUpdatePolicy;
use serde_json::Value;

use super::counting::is_on_delete;
use super::scale_in_order::ScaleInOrder;
use crate::workload::restart_on;
use crate::workload::submitted;
use crate::workload::trials::{self, Trials};
use crate::workload::validation::{self, Rules, is_same_selector, validate_numbers, validate_selector};
use pod::observed::ObservedPod;
use pod::template::metadata::validate_metadata;
use pod::template::names;
use pod::template::node::invalid;
use values::field::{FieldError, FieldPath};
use values::verdict::Verdict;

mod strategy;
mod template;
#[cfg(test)]
mod tests;

type Submitted = submitted::Submitted<CloneSet>;

impl Submitted {
    fn policy(&self) -> PodUpdatePolicy {
        self.stored.spec.update_strategy.rolling_update.pod_update_policy.clone().unwrap_or_default()
    }

    /// Pods are never recreated for an update. Of type OnDelete they are not updated at all.
    fn updates_only_in_place(&self) -> bool {
        self.policy() == PodUpdatePolicy::InPlaceOnly && !is_on_delete(&self.stored.spec)
    }

    fn names_to_delete(&self) -> &[String] {
        &self.stored.spec.scale_strategy.pods_to_delete
    }
}

/// What is known of a Pod that `podsToDelete` names.
#[derive(Clone, Debug)]
pub enum NamedPod {
    /// It exists.
    Found(Box<ObservedPod>),
    /// There is none.
    Missing,
    /// It could not be read, for this reason.
    Unknown(String),
}

/// What validation reads beside the object.
pub struct Context<'a> {
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// The flag `--allow-privileged`.
    pub allow_privileged: bool,
    /// The Pod of this name in the CloneSet's namespace; asked only for [`newly_named`] Pods.
    pub pod: &'a dyn Fn(&str) -> NamedPod,
}

/// The names in `podsToDelete` that the stored object does not have: their Pods must exist
/// (docs/behaviour/cloneset.md#validation). What cannot be the name of a Pod is not among them, so that it
/// never becomes part of a request.
pub fn newly_named(new: &str, old: Option<&str>) -> Vec<String> {
    let listed = |object: &str| {
        let value: Value = serde_json::from_str(object).unwrap_or_default();
        let names = value.pointer("/spec/scaleStrategy/podsToDelete").and_then(Value::as_array).cloned();
        names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let mut known: HashSet<String> = old.map(listed).into_iter().flatten().collect();
    let added = listed(new).into_iter().filter(|name| known.insert(name.clone()));
    added.filter(|name| names::dns_subdomain(name).is_empty()).collect()
}

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    validation::review::<CloneSet, _>(context, new, old)
}

/// What the API server is asked about an object that is created or, with `old`, updated.
pub fn trials(new: &str, old: Option<&str>) -> Trials {
    trials::of::<CloneSet, Context<'_>>(new, old)
}

impl Rules<CloneSet> for Context<'_> {
    const JUDGED: &'static [&'static str] = &[""];

    fn validate(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &new.stored.spec;
        validate_metadata(&new.sent, &mut errors);
        validate_numbers([("spec.replicas", spec.replicas)], &mut errors);
        validate_selector(&new.sent, &spec.selector, "cloneset", &mut errors);
        template::validate(new, self, &mut errors);
        strategy::validate(new, &mut errors);
        validate_names_to_delete(new, old, self, &mut errors);
        validate_scale_in_order(new, &mut errors);
        restart_on::validate(&new.stored.metadata, &mut errors);
        if let Some(old) = old {
            validate_update(new, old, self, &mut errors);
        }
        errors
    }

    fn warnings(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<String> {
        let in_place = new.policy() != PodUpdatePolicy::ReCreate;
        let idle = restart_on::idle(&new.sent, in_place, self.gates);
        long_name_warning(new, old, self.gates).into_iter().chain(idle).collect()
    }
}

fn validate_names_to_delete(
    new: &Submitted,
    old: Option<&Submitted>,
    context: &Context<'_>,
    errors: &mut Vec<FieldError>,
) {
    let path = FieldPath::new("spec.scaleStrategy.podsToDelete");
    let names = new.names_to_delete();
    let mut seen = HashSet::new();
    let repeated: Vec<&str> = names.iter().map(String::as_str).filter(|name| !seen.insert(*name)).collect();
    if !repeated.is_empty() {
        let shown: Vec<String> = names.iter().map(|name| values::json_patch::string(name)).collect();
        let shown = format!("[]string{{{}}}", shown.join(", "));
        let message = format!("duplicated items [{}]", repeated.join(" "));
        errors.push(FieldError::invalid_value(path.clone(), shown, message));
    }
    let mut known: HashSet<&String> = old.map(Submitted::names_to_delete).into_iter().flatten().collect();
    for name in names.iter().filter(|name| known.insert(name)) {
        let problem = match (context.pod)(name) {
            NamedPod::Missing => format!("find pod {name} failed: Pod \"{name}\" not found"),
            NamedPod::Unknown(error) => format!("find pod {name} failed: {error}"),
            NamedPod::Found(pod) if pod.metadata.deletion_timestamp.is_some() => {
                format!("find pod {name} already terminating")
            }
            NamedPod::Found(pod) => {
                let uid = &new.stored.metadata.uid;
                if pod.controller().is_some_and(|owner| owner.uid == *uid && !uid.is_empty()) {
                    continue;
                }
                format!("find pod {name} owner is not this CloneSet")
            }
        };
        errors.push(FieldError::invalid(path.clone(), name, problem));
    }
}

fn validate_scale_in_order(new: &Submitted, errors: &mut Vec<FieldError>) {
    let Some(text) = new.stored.metadata.annotations.get(SCALE_IN_ORDER) else { return };
    let problems = ScaleInOrder::read(text).err().unwrap_or_default();
    invalid(&FieldPath::new("metadata.annotations").key(SCALE_IN_ORDER), text, problems, errors);
}

/// The only fields of `spec` that may change are all but the selector.
const IMMUTABLE: &str = "updates to cloneset spec for fields other than 'replicas', 'template', 'lifecycle', \
    'scaleStrategy', 'updateStrategy', 'minReadySeconds', 'progressDeadlineSeconds', \
    'volumeClaimTemplates' and 'revisionHistoryLimit' are forbidden";

fn validate_update(new: &Submitted, old: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    if !is_same_selector(&new.stored.spec.selector, &old.stored.spec.selector) {
        errors.push(FieldError::forbidden(FieldPath::new("spec"), IMMUTABLE));
    }
    if new.updates_only_in_place() {
        errors.extend(template::validate_in_place(new, old, context.gates));
    }
}

/// The Pods' labels name the revision, whose name is too long where the CloneSet's is
/// (docs/behaviour/cloneset.md#validation).
fn long_name_warning(new: &Submitted, old: Option<&Submitted>, gates: &FeatureGates) -> Option<String> {
    const LONGEST: usize = 52;
    let name = &new.stored.metadata.name;
    let short = gates.enabled(api::features::Feature::CloneSetShortHash);
    (old.is_none() && !short && name.len() > LONGEST).then(|| {
        format!(
            "metadata.name has {} characters: with more than {LONGEST} the label controller-revision-hash of \
             its Pods is longer than the 63 that Kubernetes allows, unless the feature gate CloneSetShortHash \
             is on",
            name.len()
        )
    })
}
