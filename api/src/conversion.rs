//! Conversion of objects between `v1alpha1` and `v1beta1` on raw JSON
//! (docs/behaviour/api-and-registration.md#conversion-stanzas,
//! docs/behaviour/api-and-registration.md#conversion-of-podunavailablebudget and docs/behaviour/rollouts.md#kinds).
//!
//! Each kind has two rules, one per direction, that do what the mapping tables say and no more. What a
//! rule does not name is carried as the text it came in. What the target version cannot hold is not lost:
//! [`convert`] converts the result back, notes every difference from the source in one annotation,
//! [`CONVERTED_FIELDS`], and puts the noted values back when the object returns. A noted value is put back
//! only if, seen in the version the object is in now, it changes nothing: what a client edited wins over
//! what was noted.
//!
//! `convert(convert(o, other), own)` equals `o` as JSON, with these exceptions:
//! - the order of keys may differ where a rule moved a field;
//! - of repeated keys in one object only the last is kept;
//! - an empty or null `metadata.annotations` may come back absent;
//! - a [`CONVERTED_FIELDS`] annotation that is malformed, or that names the version the object is in
//!   already (a manifest whose `apiVersion` was edited), is dropped.
//!
//! A client that sends an old copy of the annotation sends old values with it, of the status too; the
//! controller's next status write corrects those. A client that drops the annotation drops what it holds.
//!
//! Where docs/behaviour/api-and-registration.md#version-conversion and
//! docs/behaviour/api-and-registration.md#conversion-of-podunavailablebudget name something better than the
//! tables, that is done: labels and annotations of `v1alpha1` that represent a field mirror it (they are
//! deleted when it is unset), a SidecarSet `namespace` comes back as such, and no `status` is made up. Two
//! annotations of PodUnavailableBudget leave `v1beta1` once they have become fields; one that cannot be read
//! stays an annotation.

mod batchrelease;
mod cloneset;
mod containerrecreaterequest;
mod daemonset;
mod kept;
mod metadata;
mod podunavailablebudget;
mod renames;
pub mod review;
mod rollout;
mod sidecarset;
mod statefulset;
#[cfg(test)]
mod tests;
mod uniteddeployment;
mod workloadspread;

use serde_json::value::RawValue;

use crate::raw_object::{RawNode, RawObject};
use crate::{APPS_GROUP, POLICY_GROUP, ROLLOUTS_GROUP};

/// Annotation that carries what the object's present version cannot hold: a JSON object with `version`
/// (whose fields these are), `set` (a list of `path` and `value`) and `unset` (a list of paths).
pub const CONVERTED_FIELDS: &str = "kutter.io/converted-fields";

const ALPHA: &str = "v1alpha1";
const BETA: &str = "v1beta1";

/// Why an object could not be converted. The texts are part of the API
/// (docs/behaviour/api-and-registration.md#conversion-stanzas and
/// docs/behaviour/api-and-registration.md#conversion-of-podunavailablebudget).
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// The text is not one JSON object.
    #[error("object is not a JSON object: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The object already has the desired version.
    #[error("conversion is not allowed between same type *{version}.{kind}")]
    SameVersion {
        /// The version without its group.
        version: String,
        /// The kind of the object.
        kind: String,
    },
    /// No such kind is served in this version.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    UnknownKind {
        /// The kind of the object.
        kind: String,
        /// The version, with its group, that does not have it.
        api_version: String,
    },
}

/// Converts one object in place, as the mapping table says for one direction. Nothing in an object makes a
/// rule fail: one stored object that could not be converted would fail every list of its kind.
type Rule = fn(&mut RawObject<'_>);

/// The two directions of a kind whose versions differ.
struct Rules {
    to_beta: Rule,
    to_alpha: Rule,
}

/// Converts `object`, a JSON text, to `desired_api_version`, a version with its group.
///
/// Only the labels and annotations of `metadata` change, as the API server demands. Objects of any shape
/// are taken: a rule leaves alone what does not have the type it expects.
///
/// # Errors
/// If `object` is no JSON object, has the desired version already, or is of a kind that is not served in
/// both versions.
pub fn convert(object: &str, desired_api_version: &str) -> Result<Box<RawValue>, ConversionError> {
    let source = RawObject::parse(object)?;
    let kind = source.string("kind").unwrap_or_default();
    let api_version = source.string("apiVersion").unwrap_or_default();
    let unknown = |api_version: &str| ConversionError::UnknownKind {
        kind: kind.clone(),
        api_version: api_version.to_owned(),
    };
    let (group, rules) = rules(&kind).ok_or_else(|| unknown(&api_version))?;
    let version = served_version(group, &api_version).ok_or_else(|| unknown(&api_version))?;
    let desired = served_version(group, desired_api_version).ok_or_else(|| unknown(desired_api_version))?;
    if version == desired {
        return Err(ConversionError::SameVersion { version: version.to_owned(), kind });
    }
    let mut converted = match rules {
        None => source,
        Some(rules) if desired == BETA => kept::convert_keeping(
            source,
            &kept::Direction::new(version, rules.to_beta, desired, rules.to_alpha),
        ),
        Some(rules) => kept::convert_keeping(
            source,
            &kept::Direction::new(version, rules.to_alpha, desired, rules.to_beta),
        ),
    };
    converted.insert("apiVersion", RawNode::string(desired_api_version));
    Ok(RawValue::from_string(converted.to_string())?)
}

/// The version part of `api_version` if it is of this group and one of the two served.
fn served_version(group: &str, api_version: &str) -> Option<&'static str> {
    match api_version.split_once('/') {
        Some((name, ALPHA)) if name == group => Some(ALPHA),
        Some((name, BETA)) if name == group => Some(BETA),
        _ => None,
    }
}

/// The group and rules of a kind with two versions; no rules where both versions have one shape.
fn rules(kind: &str) -> Option<(&'static str, Option<Rules>)> {
    let group = match kind {
        "PodUnavailableBudget" => POLICY_GROUP,
        "BatchRelease" | "Rollout" => ROLLOUTS_GROUP,
        _ => APPS_GROUP,
    };
    let (to_beta, to_alpha): (Rule, Rule) = match kind {
        "AdvancedCronJob" | "BroadcastJob" | "ImageListPullJob" | "ImagePullJob" | "NodeImage" => {
            return Some((group, None));
        }
        "BatchRelease" => (batchrelease::to_beta, batchrelease::to_alpha),
        "CloneSet" => (cloneset::to_beta, cloneset::to_alpha),
        "ContainerRecreateRequest" => (containerrecreaterequest::to_beta, containerrecreaterequest::to_alpha),
        "DaemonSet" => (daemonset::to_beta, daemonset::to_alpha),
        "PersistentPodState" => {
            (renames::persistent_pod_state_to_beta, renames::persistent_pod_state_to_alpha)
        }
        "PodUnavailableBudget" => (podunavailablebudget::to_beta, podunavailablebudget::to_alpha),
        "ResourceDistribution" => {
            (renames::resource_distribution_to_beta, renames::resource_distribution_to_alpha)
        }
        "Rollout" => (rollout::to_beta, rollout::to_alpha),
        "SidecarSet" => (sidecarset::to_beta, sidecarset::to_alpha),
        "StatefulSet" => (statefulset::to_beta, statefulset::to_alpha),
        "UnitedDeployment" => (uniteddeployment::to_beta, uniteddeployment::to_alpha),
        "WorkloadSpread" => (workloadspread::to_beta, workloadspread::to_alpha),
        _ => return None,
    };
    Some((group, Some(Rules { to_beta, to_alpha })))
}
