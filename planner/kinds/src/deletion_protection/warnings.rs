//! The warnings to a client beside "yes": a label that protects nothing, and a namespace that will not go
//! (docs/behaviour/deletion-protection.md#warnings).

use api::features::FeatureGates;
use api::labels::DELETE_PROTECTION;
use serde_json::value::RawValue;

use super::{Assessment, Kind, Object, assess};

/// Names in one warning; API servers cut long ones.
const NAMES: usize = 3;

/// A kind whose objects live in namespaces, as a list finds it.
#[derive(Clone, Copy, Debug)]
pub struct Namespaced {
    /// The kind.
    pub kind: Kind,
    /// API group.
    pub group: &'static str,
    /// A version that every cluster serves.
    pub version: &'static str,
    /// The resource in URLs.
    pub plural: &'static str,
}

const fn namespaced(
    kind: Kind,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
) -> Namespaced {
    Namespaced { kind, group, version, plural }
}

/// The protected kinds whose objects live in namespaces. ReplicaSets come last: they mostly repeat what
/// their Deployments say.
pub const NAMESPACED: [Namespaced; 8] = [
    namespaced(Kind::Deployment, "apps", "v1", "deployments"),
    namespaced(Kind::StatefulSet, "apps", "v1", "statefulsets"),
    namespaced(Kind::CloneSet, api::APPS_GROUP, "v1beta1", "clonesets"),
    namespaced(Kind::AdvancedStatefulSet, api::APPS_GROUP, "v1beta1", "statefulsets"),
    namespaced(Kind::UnitedDeployment, api::APPS_GROUP, "v1beta1", "uniteddeployments"),
    namespaced(Kind::Service, "", "v1", "services"),
    namespaced(Kind::Ingress, "networking.k8s.io", "v1", "ingresses"),
    namespaced(Kind::ReplicaSet, "apps", "v1", "replicasets"),
];

/// The object's own name: that of the request is empty in a collection delete.
pub fn name(object: &RawValue) -> Option<String> {
    let object: Object<'_> = serde_json::from_str(object.get()).ok()?;
    object.metadata?.name
}

/// Says so where the object has the label with a value that means nothing
/// (docs/behaviour/deletion-protection.md#warnings).
pub fn unknown_value(object: &RawValue) -> Option<String> {
    let object: Object<'_> = serde_json::from_str(object.get()).ok()?;
    let value = object.metadata?.labels?.protection?;
    (!matches!(value.as_str(), "Always" | "Cascading"))
        .then(|| format!("label {DELETE_PROTECTION}={value} protects nothing: write Always or Cascading"))
}

/// Says which of `objects`, those of a namespace that is deleted, will be kept and hold it
/// (docs/behaviour/deletion-protection.md#warnings).
pub fn left_behind<'a>(
    objects: impl IntoIterator<Item = (Namespaced, &'a RawValue)>,
    gates: &FeatureGates,
) -> Option<String> {
    let kept = objects.into_iter().filter_map(|(found, object)| {
        match assess(found.kind, found.version, Some(object), gates) {
            Assessment::Refused(refusal) => Some(format!("{} {}", found.kind.name(), refusal.name)),
            _ => None,
        }
    });
    let mut names: Vec<String> = kept.collect();
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    if names.is_empty() {
        return None;
    }
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names.join(", ");
    Some(format!(
        "the namespace will stay Terminating: {DELETE_PROTECTION} keeps {names}{more} until that label is removed"
    ))
}
