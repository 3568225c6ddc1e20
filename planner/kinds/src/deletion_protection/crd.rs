//! `Cascading` for CustomResourceDefinitions
//! (docs/behaviour/deletion-protection.md#cascading-for-definitions).

use api::features::{Feature, FeatureGates};
use serde::Deserialize;

use super::{Assessment, CustomResources, Need, Object, Question};

#[derive(Deserialize)]
pub(super) struct Spec {
    group: Option<String>,
    /// Only in `apiextensions.k8s.io/v1beta1`: the one version where `versions` is absent.
    version: Option<String>,
    versions: Option<Vec<Version>>,
    names: Option<Names>,
}

#[derive(Deserialize)]
struct Version {
    name: Option<String>,
    served: Option<bool>,
    storage: Option<bool>,
}

#[derive(Deserialize)]
struct Names {
    plural: Option<String>,
    kind: Option<String>,
    #[serde(rename = "listKind")]
    list_kind: Option<String>,
}

/// Refused while objects of the kind exist. A definition that was never established, or that serves no
/// version, has no objects that anybody could reach
/// (docs/behaviour/deletion-protection.md#cascading-for-definitions).
pub(super) fn cascading(object: &Object<'_>, gates: &FeatureGates) -> Result<Assessment, serde_json::Error> {
    if !gates.enabled(Feature::DeletionProtectionForCRDCascadingGate) {
        let gate = Feature::DeletionProtectionForCRDCascadingGate;
        return Ok(object.refuse(format!("feature-gate {gate} is not enabled")));
    }
    if !is_established(object)? {
        return Ok(Assessment::Allowed);
    }
    let spec: Option<Spec> = object.spec()?;
    let Some(resources) = spec.and_then(Spec::into_resources) else {
        return Ok(Assessment::Allowed);
    };
    let (namespace, name) = object.key();
    Ok(Assessment::Undecided(Question { namespace, name, need: Need::CustomResources(resources) }))
}

fn is_established(object: &Object<'_>) -> Result<bool, serde_json::Error> {
    let conditions = object.status()?.and_then(|status| status.conditions).unwrap_or_default();
    Ok(conditions.iter().any(|condition| {
        condition.kind.as_deref() == Some("Established") && condition.status.as_deref() == Some("True")
    }))
}

impl Spec {
    fn into_resources(self) -> Option<CustomResources> {
        let version = served_version(self.versions.unwrap_or_default(), self.version)?;
        let names = self.names?;
        let kind = names.kind.unwrap_or_default();
        let list_kind =
            names.list_kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| format!("{kind}List"));
        Some(CustomResources {
            group: self.group.unwrap_or_default(),
            version,
            plural: names.plural.unwrap_or_default(),
            kind,
            list_kind,
        })
    }
}

fn served_version(versions: Vec<Version>, only: Option<String>) -> Option<String> {
    if versions.is_empty() {
        return only;
    }
    let served = versions.into_iter().filter(|version| version.served == Some(true));
    served.max_by_key(|version| version.storage == Some(true)).and_then(|version| version.name)
}
