//! Claims of Pods beside the claim templates of their workload: how they compare, and how they grow
//! (docs/behaviour/statefulset.md#growing-claims).

use api::Raw;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::action::{Action, ClaimReason};
use super::children::{Claim, ClaimSpec};
use super::object_version::ObjectVersion;
use super::storage_class::StorageClasses;
use pod::observed::Pairs;
use values::event::{Event, warning};
use values::quantity::{Format, Quantity};

/// The condition of a claim whose volume has grown, and whose file system grows with the next Pod.
const FILE_SYSTEM_RESIZE_PENDING: &str = "FileSystemResizePending";
const STORAGE: &str = "storage";

/// An entry of `spec.volumeClaimTemplates`, as much of it as is compared.
#[derive(Clone, Debug)]
pub(crate) struct ClaimTemplate {
    pub(crate) name: String,
    spec: ClaimSpec,
    /// `spec.resources`, whole.
    resources: Option<Raw>,
}

/// The templates.
///
/// # Errors
/// What of them can't be read.
pub(crate) fn templates(claims: Option<&Raw>) -> Result<Vec<ClaimTemplate>, String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        metadata: Named,
        spec: ClaimSpec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        name: String,
    }
    #[derive(Deserialize)]
    struct Whole {
        spec: Option<Resources>,
    }
    #[derive(Deserialize)]
    struct Resources {
        resources: Option<Raw>,
    }
    let Some(raw) = claims else { return Ok(Vec::new()) };
    let unreadable = |error| format!("spec.volumeClaimTemplates can't be read: {error}");
    let read: Option<Vec<Template>> = serde_json::from_str(raw.get()).map_err(unreadable)?;
    let whole: Option<Vec<Whole>> = serde_json::from_str(raw.get()).map_err(unreadable)?;
    let resources = whole.into_iter().flatten().map(|whole| whole.spec.and_then(|spec| spec.resources));
    Ok(read
        .into_iter()
        .flatten()
        .zip(resources)
        .map(|(template, resources)| ClaimTemplate {
            name: template.metadata.name,
            spec: template.spec,
            resources,
        })
        .collect())
}

/// How a claim compares to its template. A claim that is missing or is being deleted is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Class and access modes are those of the template.
    pub(crate) same_shape: bool,
    /// It asks for at least as much as its template.
    pub(crate) compatible: bool,
    /// It has as much as it asks for.
    pub(crate) ready: bool,
    /// What is left to do needs a new Pod at most.
    pub(crate) completed: bool,
}

impl ClaimTemplate {
    /// How this claim compares.
    pub(crate) fn fit(&self, claim: &Claim) -> Fit {
        let (wanted, given) = (&self.spec, &claim.spec);
        let same_class = match (&wanted.storage_class_name, &given.storage_class_name) {
            (Some(wanted), Some(given)) => wanted == given,
            _ => true,
        };
        let modes = |spec: &ClaimSpec| spec.access_modes.clone().unwrap_or_default();
        let same_shape = same_class && modes(wanted) == modes(given);
        let asked = size(&given.resources.requests);
        let compatible = same_shape && asked >= size(&wanted.resources.requests);
        let ready = same_shape && size(&claim.status.capacity) >= asked;
        let completed = compatible && (ready || claim.condition(FILE_SYSTEM_RESIZE_PENDING).is_some());
        Fit { same_shape, compatible, ready, completed }
    }

    /// Since when the file system of the claim waits for a new Pod; `None` where it does not.
    pub(crate) fn waits_for_new_pod(&self, claim: &Claim) -> Option<Option<Timestamp>> {
        let fit = self.fit(claim);
        let condition = claim.condition(FILE_SYSTEM_RESIZE_PENDING)?;
        (fit.completed && !fit.ready).then(|| condition.since())
    }

    /// The write with which the claim of this Pod grows, with this metadata; `None` where it is large enough.
    ///
    /// # Errors
    /// A claim of another shape, which an Event reports, or of a StorageClass that allows no expansion.
    pub(crate) fn grow(
        &self,
        claim: &Claim,
        (pod, metadata): (&str, &Map<String, Value>),
        classes: &StorageClasses,
        events: &mut Vec<Event>,
    ) -> Result<Option<Action>, String> {
        let fit = self.fit(claim);
        if fit.compatible {
            return Ok(None);
        }
        let name = &claim.metadata.name;
        if !fit.same_shape {
            let problem =
                format!("pvc {name}: contains diff other than spec resource, wait pvc to be deleted");
            events.push(warning("FailedUpdatePVC", format!("failed to update {problem}")));
            return Err(format!("can not patch {problem}"));
        }
        if let Some(class) = &claim.spec.storage_class_name {
            match classes.named(class) {
                None => {
                    return Err(format!(
                        "could not get sc {class} for {pod} when checking PVC spec: it does not exist"
                    ));
                }
                Some(known) if !known.allows_expansion => {
                    return Err(format!("storage class {class} for {pod} does not support volume expansion"));
                }
                Some(_) => {}
            }
        }
        let resources = self.resources.as_ref();
        Ok(Some(write(claim, pod, metadata.clone(), resources, ClaimReason::Resize)))
    }
}

/// The storage of a list of resources; one that is missing or can't be read counts as none.
fn size(resources: &Pairs) -> Quantity {
    let known = resources.get(STORAGE).and_then(|text| text.parse().ok());
    known.unwrap_or_else(|| Quantity::from_units(0, Format::BinarySi))
}

/// The write of this metadata, and of these resources.
pub(crate) fn write(
    claim: &Claim,
    pod: &str,
    mut metadata: Map<String, Value>,
    resources: Option<&Raw>,
    reason: ClaimReason,
) -> Action {
    let claim = ObjectVersion::of(&claim.metadata);
    metadata.insert("uid".to_owned(), json!(claim.uid));
    metadata.insert("resourceVersion".to_owned(), json!(claim.resource_version));
    let patch = match resources {
        // As it is written: nothing of it is lost.
        Some(resources) => {
            let metadata = Value::Object(metadata);
            format!(r#"{{"metadata":{metadata},"spec":{{"resources":{}}}}}"#, resources.get())
        }
        None => json!({"metadata": metadata}).to_string(),
    };
    Action::WriteClaim { claim, pod: pod.to_owned(), patch, reason }
}
