//! What a ResourceDistribution may say (docs/behaviour/resourcedistribution.md#validation).
//!
//! Only the API server can decide whether `spec.resource` is sound: a review names what is to be tried out
//! there, and takes the answer into its verdict.

use std::collections::BTreeSet;

use api::kinds::resourcedistribution::{API_VERSION, KIND, NamespaceList, ResourceDistribution, Spec};
use serde_json::json;

use super::resource::{Head, Resource, ResourceError, ResourceKind};
use super::targets::SYSTEM_NAMESPACES;
use crate::workload::submitted::{read, read_old};
use pod::template::metadata::{validate_metadata, validate_selector};
use pod::template::names;
use pod::template::node::invalid;
use values::field::{FieldError, FieldPath, aggregate};
use values::verdict::{Denial, Verdict, refused};

/// A creation to try out on the API server, by a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRunCreation {
    /// The kind of the object.
    pub kind: ResourceKind,
    /// The object.
    pub object: String,
}

/// What came of a [`DryRunCreation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunResult {
    /// The API server would take the object, or has one of this name.
    Accepted,
    /// Whether it would can't be tried out, for this reason.
    Unknown(String),
    /// The object is wrong.
    Invalid(String),
    /// The object must not be created.
    Forbidden(String),
    /// The API server could not be asked.
    Failed(String),
}

/// A review of which only the rehearsal is missing.
#[derive(Clone, Debug, Default)]
pub struct Review {
    /// The creation to try out before the verdict.
    pub rehearsal: Option<DryRunCreation>,
    errors: Vec<FieldError>,
    /// Those of the targets, which come after what the rehearsal reports.
    errors_of_targets: Vec<FieldError>,
    warnings: Vec<String>,
}

/// Looks at a ResourceDistribution of either version, and at its stored state where it is updated.
///
/// # Errors
/// Code 400 for what can't be read.
pub fn review(new: &str, old: Option<&str>, install_namespace: &str) -> Result<Review, Denial> {
    let read = |object: &str| Ok(read::<ResourceDistribution>(object, API_VERSION)?.spec);
    let spec = read(new)?;
    let mut review = Review::default();
    validate_metadata(&serde_json::from_str(new).map_err(refused)?, &mut review.errors);
    let old = read_old(old, KIND, read, &mut review.warnings);
    review.check_resource(&spec, old.as_ref(), install_namespace);
    review.check_targets(&spec);
    Ok(review)
}

impl Review {
    fn check_resource(&mut self, spec: &Spec, old: Option<&Spec>, install_namespace: &str) {
        let path = FieldPath::new("spec.resource");
        // The resource itself is never printed: it may hold a secret.
        match Resource::read(spec.resource.as_ref()) {
            Err(error @ ResourceError::Unreadable(_)) => {
                self.errors.push(FieldError::internal(path, error.to_string()));
            }
            Err(error @ ResourceError::Empty) => {
                self.errors.push(FieldError::invalid(path, "", error.to_string()));
            }
            Err(ResourceError::Unsupported(kind)) => {
                let error = ResourceError::Unsupported(kind.clone()).to_string();
                self.errors.push(FieldError::invalid(path, &kind, error));
            }
            Err(error @ ResourceError::NoName) => {
                self.errors
                    .push(FieldError::required(path.child("metadata").child("name"), error.to_string()));
            }
            Ok(resource) => match (head(spec), old.and_then(head)) {
                (Some(new), Some(old)) if new != old => {
                    let name = new.name().to_owned();
                    let message = "resource apiVersion, kind, and name are immutable";
                    self.errors.push(FieldError::invalid(path, &name, message));
                }
                _ => match resource.in_namespace(install_namespace) {
                    Ok(object) => self.rehearsal = Some(DryRunCreation { kind: resource.kind, object }),
                    Err(error) => {
                        let error = ResourceError::Unreadable(error.to_string());
                        self.errors.push(FieldError::internal(path, error.to_string()));
                    }
                },
            },
        }
    }

    fn check_targets(&mut self, spec: &Spec) {
        let path = FieldPath::new("spec.targets");
        let targets = &spec.targets;
        let errors = &mut self.errors_of_targets;
        let lists = [
            ("includedNamespaces", &targets.included_namespaces),
            ("excludedNamespaces", &targets.excluded_namespaces),
        ];
        for (field, list) in lists {
            for name in listed(list) {
                invalid(&path.child(field), name, names::dns_label(name), errors);
            }
        }
        let excluded: BTreeSet<&str> = listed(&targets.excluded_namespaces).collect();
        let included: BTreeSet<&str> = listed(&targets.included_namespaces).collect();
        let both: Vec<&str> = included.intersection(&excluded).copied().collect();
        if !both.is_empty() {
            let both = both.join(", ");
            let message = format!(
                "ambiguous targets because namespace [{both}] is in both IncludedNamespaces.List and \
                 ExcludedNamespaces.List"
            );
            errors.push(FieldError::invalid(path.clone(), &both, message));
        }
        for name in SYSTEM_NAMESPACES.into_iter().filter(|name| included.contains(name)) {
            self.warnings.push(format!("{path}.includedNamespaces: {name} never gets a copy"));
        }
        if let Some(selector) = &targets.namespace_selector {
            let path = path.child("namespaceSelector");
            let mut wrong = Vec::new();
            validate_selector(selector, &path, &mut wrong);
            if let Some(message) = aggregate(&wrong) {
                let message = format!("labelSelectorAsSelector error: {message}");
                errors.push(FieldError::invalid_value(path, json!(selector), message));
            }
        }
    }

    /// The answer, given what came of the rehearsal.
    pub fn verdict(mut self, rehearsed: DryRunResult) -> Verdict {
        let path = FieldPath::new("spec.resource");
        match rehearsed {
            DryRunResult::Accepted => {}
            DryRunResult::Unknown(reason) => {
                self.warnings.push(format!("{path} is not tried out: {reason}"));
            }
            DryRunResult::Invalid(error) => {
                let message = format!("spec.resource is invalid: {error}");
                self.errors.push(FieldError::invalid(path, "", message));
            }
            DryRunResult::Forbidden(error) => {
                let message = format!("spec.resource is forbidden: {error}");
                self.errors.push(FieldError::forbidden(path, message));
            }
            DryRunResult::Failed(error) => {
                let message = format!("failed to dry-run validate spec.resource: {error}");
                self.errors.push(FieldError::internal(path, message));
            }
        }
        self.errors.append(&mut self.errors_of_targets);
        Verdict::of(&self.errors, 422, self.warnings)
    }
}

fn head(spec: &Spec) -> Option<Head> {
    spec.resource.as_ref().and_then(|raw| Resource::head(raw).ok())
}

fn listed(list: &NamespaceList) -> impl Iterator<Item = &str> {
    list.list.iter().map(|namespace| namespace.name.as_str())
}

#[cfg(test)]
mod tests;
