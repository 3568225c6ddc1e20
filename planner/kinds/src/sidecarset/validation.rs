//! What a SidecarSet may say (docs/behaviour/sidecarset.md#validation).
//!
//! ```text
//!   metadata    name, canary and base
//!   strategy    update strategy and pinned revision
//!   sidecars    containers, their extra fields and the checks of Kubernetes
//!   patch       patchPodMetadata and its allow-list
//!   conflict    other SidecarSets that meet the same Pods
//! ```

use api::features::FeatureGates;
use api::meta::LabelSelector;
use api::sidecarset::{API_VERSION, KIND, SidecarSet};
use serde::Deserialize;
use serde_json::Value;

use super::defaulting;
use crate::workload::submitted::{in_hub_version, read_old};
use crate::workload::trials::Trials;
use crate::workload::validation::keep_new_selectors;
use pod::template::node::{Node, check_types};
use pod::template::trial::Trial;
use values::canonical::{Kind, table};
use values::field::{FieldError, FieldPath};
use values::read::from_str;
use values::selector::is_empty;
use values::verdict::{Denial, Verdict, refused};

mod conflict;
mod metadata;
mod patch;
mod sidecars;
mod strategy;

pub(in crate::sidecarset) use conflict::unsatisfiable;

/// Key of the ConfigMap `kruise-configuration` with the allow-list of `patchPodMetadata`.
pub const PATCH_METADATA_ALLOW_LIST: &str = "SidecarSet_PatchPodMetadata_WhiteList";

/// A ControllerRevision that a SidecarSet names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionQuery<'a> {
    /// By its own name, among those of a SidecarSet.
    Name {
        /// The SidecarSet.
        sidecar_set: &'a str,
        /// The revision's name.
        name: &'a str,
    },
    /// By the custom version of a SidecarSet.
    CustomVersion {
        /// The SidecarSet.
        sidecar_set: &'a str,
        /// The label's value.
        version: &'a str,
    },
}

/// What validation reads beside the object.
pub struct Context<'a> {
    /// All SidecarSets; the one under review may be among them.
    pub sidecar_sets: &'a [&'a SidecarSet],
    /// Whether a revision exists in the install namespace.
    pub has_revision: &'a dyn Fn(RevisionQuery<'_>) -> bool,
    /// Value of [`PATCH_METADATA_ALLOW_LIST`]; `None` where ConfigMap or key are missing.
    pub allow_list: Option<&'a str>,
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// The flag `--allow-privileged`.
    pub allow_privileged: bool,
}

/// What is wrong with a SidecarSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Reasons to refuse it.
    pub errors: Vec<FieldError>,
    /// Sentences for its author.
    pub warnings: Vec<String>,
}

impl Validation {
    /// Refuses a new object for `error`, and only warns about an existing one, which may be stored with that
    /// flaw already (docs/behaviour/sidecarset.md#spec-rules).
    fn refuse_new(&mut self, old: Option<&SidecarSet>, error: FieldError) {
        if old.is_none() {
            self.errors.push(error);
        } else {
            self.warnings.push(error.to_string());
        }
    }
}

/// A SidecarSet of a request in its hub version.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The object.
    pub object: SidecarSet,
    /// What the conversion loses.
    pub warnings: Vec<String>,
}

impl Submitted {
    /// Reads a SidecarSet of either version.
    ///
    /// # Errors
    /// Code 400 for what is no SidecarSet.
    pub fn read(object: &str) -> Result<Self, Denial> {
        let stored = in_hub_version(object, API_VERSION)?;
        let set = from_str(&stored).map_err(|error| fault(&stored).unwrap_or_else(|| refused(error)))?;
        let head: Head = from_str(object).map_err(refused)?;
        Ok(Self { object: set, warnings: head.warnings() })
    }
}

/// What can't be read of containers and volumes, which are carried as text: a spec calls them as a Pod does.
fn fault(stored: &str) -> Option<Denial> {
    let set: Value = serde_json::from_str(stored).ok()?;
    let mut errors = Vec::new();
    check_types(
        &Node::new(set.get("spec")?, FieldPath::new("spec")),
        &Kind::Struct(&table::POD_SPEC),
        &mut errors,
    );
    errors.into_iter().next().map(refused).or_else(|| defaulting::hashes(stored).err())
}

/// The fields of a request's object that only v1alpha1 has.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Head {
    api_version: String,
    spec: Option<HeadSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HeadSpec {
    namespace: Option<String>,
    namespace_selector: Option<serde::de::IgnoredAny>,
}

impl Head {
    fn warnings(&self) -> Vec<String> {
        let Some(spec) = self.spec.as_ref().filter(|_| self.api_version != API_VERSION) else {
            return Vec::new();
        };
        let namespace = spec.namespace.as_deref().unwrap_or_default();
        if namespace.is_empty() || spec.namespace_selector.is_none() {
            return Vec::new();
        }
        vec![format!("spec.namespaceSelector is dropped because spec.namespace ({namespace}) is set as well")]
    }
}

/// The code with which a SidecarSet is refused: that of OpenKruise (docs/behaviour/api-and-registration.md#codes-of-denials).
const REFUSAL: u16 = 500;

/// What the API server is asked about a SidecarSet that is created or, with `old`, updated.
pub fn trials(new: &str, old: Option<&str>) -> Trials {
    let spec = |object: &str| serde_json::from_str::<Value>(object).ok()?.get("spec").cloned();
    let old = old.and_then(spec);
    let trial = spec(new).and_then(|new| Trial::of_sidecars(&new, old.as_ref()));
    Trials { code: REFUSAL, list: trial.into_iter().collect() }
}

/// Answers a CREATE or, with `old`, an UPDATE request. Both objects may be of either version. Where `old`
/// can't be read, `new` is checked on its own.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    let submitted = match Submitted::read(new) {
        Ok(submitted) => submitted,
        Err(denial) => return denial.into(),
    };
    let mut warnings = submitted.warnings;
    let old = read_old(old, KIND, Submitted::read, &mut warnings).map(|old| old.object);
    let validation = validate(&submitted.object, old.as_ref(), context);
    warnings.extend(validation.warnings);
    Verdict::of(&validation.errors, REFUSAL, warnings)
}

/// Checks a SidecarSet that has its defaults already. `old` is the stored object of an update.
pub fn validate(new: &SidecarSet, old: Option<&SidecarSet>, context: &Context<'_>) -> Validation {
    let mut validation = validate_fields(new, old, context);
    if let Some(old) = old {
        keep_new_selectors(&mut validation.errors, || validate_fields(old, None, context).errors);
    }
    if validation.errors.is_empty() {
        conflict::validate(new, context, &mut validation);
    }
    validation
}

fn validate_fields(new: &SidecarSet, old: Option<&SidecarSet>, context: &Context<'_>) -> Validation {
    let mut validation = Validation::default();
    metadata::validate(new, old, context, &mut validation);
    strategy::validate(new, old, context, &mut validation);
    sidecars::validate(new, old, context, &mut validation);
    patch::validate(new, old, context, &mut validation);
    validation
}

/// A selector must be sound and must select something.
fn validate_selector(selector: &LabelSelector, path: &FieldPath, errors: &mut Vec<FieldError>) {
    pod::template::metadata::validate_selector(selector, path, errors);
    if is_empty(selector) {
        let message = "empty selector is not valid for sidecarset.";
        errors.push(FieldError::invalid_value(path.clone(), go_selector(selector), message));
    }
}

/// An empty selector as Go prints the value.
fn go_selector(selector: &LabelSelector) -> String {
    let labels = if selector.match_labels.is_some() { "{}" } else { "(nil)" };
    let expressions = if selector.match_expressions.is_some() { "{}" } else { "(nil)" };
    format!(
        "v1.LabelSelector{{MatchLabels:map[string]string{labels}, \
         MatchExpressions:[]v1.LabelSelectorRequirement{expressions}}}"
    )
}

#[cfg(test)]
mod tests;
