//! Deletion protection: may an object with the label `policy.kruise.io/delete-protection` go
//! (docs/behaviour/deletion-protection.md)?
//!
//! ```text
//!   assess(kind, version, oldObject, gates)
//!      |-> Allowed | Invalid | Refused
//!      `-> Undecided(question) --need()--> the caller counts --answer(count)--> assess continues
//! ```
//!
//! Invariants:
//! 1. An object without the label, or with an unknown value, is never refused and never costs a count.
//! 2. An object that is being deleted is never refused.
//! 3. A count that failed refuses: protection fails closed.
//! 4. With the gate `ResourcesDeletionProtection` off nothing is refused.
//! 5. What an object holds is read only for `Cascading`; where it cannot be read then, the object stays.

use std::fmt::Display;

use api::features::{Feature, FeatureGates};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use values::json;
use values::verdict::Denial;

mod crd;
mod warnings;

#[cfg(test)]
mod tests;

pub use warnings::{NAMESPACED, Namespaced, left_behind, name, unknown_value};

/// Opens every refusal of a protected object; part of the observable text
/// (docs/behaviour/deletion-protection.md#what-the-client-sees).
const FORBIDDEN: &str = "forbidden by ResourcesProtectionDeletion for";
const ALWAYS: &str = "policy.kruise.io/delete-protection=Always";
const CASCADING: &str = "policy.kruise.io/delete-protection=Cascading";

/// A kind that can be protected (docs/behaviour/deletion-protection.md#protected-kinds).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `Namespace`.
    Namespace,
    /// `CustomResourceDefinition`.
    CustomResourceDefinition,
    /// `Service`.
    Service,
    /// `Ingress`.
    Ingress,
    /// `Deployment` of `apps`.
    Deployment,
    /// `ReplicaSet` of `apps`.
    ReplicaSet,
    /// `StatefulSet` of `apps`.
    StatefulSet,
    /// `CloneSet`.
    CloneSet,
    /// `StatefulSet` of `apps.kruise.io`.
    AdvancedStatefulSet,
    /// `UnitedDeployment`.
    UnitedDeployment,
}

impl Kind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Namespace,
        Self::CustomResourceDefinition,
        Self::Service,
        Self::Ingress,
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::CloneSet,
        Self::AdvancedStatefulSet,
        Self::UnitedDeployment,
    ];

    /// The kind as objects name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::CustomResourceDefinition => "CustomResourceDefinition",
            Self::Service => "Service",
            Self::Ingress => "Ingress",
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet | Self::AdvancedStatefulSet => "StatefulSet",
            Self::CloneSet => "CloneSet",
            Self::UnitedDeployment => "UnitedDeployment",
        }
    }

    /// True for the workloads of `apps.kruise.io`, whose webhooks also see creates and updates.
    pub fn is_kruise_workload(self) -> bool {
        matches!(self, Self::CloneSet | Self::AdvancedStatefulSet | Self::UnitedDeployment)
    }

    /// True for the kinds of Kubernetes that need no count: label and object say all that decides.
    pub fn decides_alone(self) -> bool {
        matches!(
            self,
            Self::Service | Self::Ingress | Self::Deployment | Self::ReplicaSet | Self::StatefulSet
        )
    }

    /// What is done with a request of this version
    /// (docs/behaviour/deletion-protection.md#steps-of-the-decision). The versions of one kind agree in the
    /// fields read here, so no conversion is needed.
    fn version_policy(self, version: &str) -> VersionPolicy {
        let known = match self {
            Self::CustomResourceDefinition | Self::Ingress => matches!(version, "v1" | "v1beta1"),
            Self::CloneSet | Self::AdvancedStatefulSet | Self::UnitedDeployment => {
                matches!(version, "v1alpha1" | "v1beta1")
            }
            _ => true,
        };
        match self {
            _ if known => VersionPolicy::Check,
            Self::CloneSet | Self::UnitedDeployment => VersionPolicy::Refuse,
            _ => VersionPolicy::Allow,
        }
    }
}

enum VersionPolicy {
    Check,
    Allow,
    Refuse,
}

/// The custom resources of one CustomResourceDefinition, as much as is needed to list them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomResources {
    /// API group.
    pub group: String,
    /// A served version, the storage version where it is served.
    pub version: String,
    /// Plural resource name, as in the path.
    pub plural: String,
    /// Kind of one object.
    pub kind: String,
    /// Kind of the list.
    pub list_kind: String,
}

/// A number that decides, and that the caller has to find out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Pods in the namespace whose phase is neither `Succeeded` nor `Failed` and that are not being
    /// deleted.
    ActivePods {
        /// The namespace.
        namespace: String,
    },
    /// PersistentVolumeClaims in the namespace with phase `Bound` that are not being deleted.
    BoundClaims {
        /// The namespace.
        namespace: String,
    },
    /// Objects of a CustomResourceDefinition, in all namespaces, that are not being deleted.
    CustomResources(CustomResources),
}

/// A protected object that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `metadata.namespace` of the object; empty for cluster-scoped kinds.
    pub namespace: String,
    /// `metadata.name` of the object. The request's own name is empty in a collection delete.
    pub name: String,
    /// The answer to the client: code 403, and no reason
    /// (docs/behaviour/deletion-protection.md#what-the-client-sees).
    pub denial: Denial,
}

/// How far the decision on a delete has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assessment {
    /// The object may go.
    Allowed,
    /// The request cannot be read; not a refusal by protection.
    Invalid(Denial),
    /// The object stays; to be counted and logged.
    Refused(Refusal),
    /// A number is needed first.
    Undecided(Question),
}

/// A decision that waits for a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    namespace: String,
    name: String,
    need: Need,
}

impl Question {
    /// The number wanted.
    pub fn need(&self) -> &Need {
        &self.need
    }

    /// Continues with the number, or with the reason why it is not known. A namespace asks twice: for its Pods
    /// and, where there are none, for its claims
    /// (docs/behaviour/deletion-protection.md#cascading-for-namespaces).
    #[must_use]
    pub fn answer<E: Display>(self, count: Result<usize, E>) -> Assessment {
        let message = match (&self.need, count) {
            (Need::ActivePods { .. }, Err(error)) => format!("{FORBIDDEN} list pods error: {error}"),
            (Need::BoundClaims { .. }, Err(error)) => format!("{FORBIDDEN} list pvc error: {error}"),
            (Need::CustomResources(resources), Err(error)) => {
                let CustomResources { group, version, list_kind, .. } = resources;
                format!("failed to list CRs of {group}/{version}, Kind={list_kind}: {error}")
            }
            (Need::ActivePods { namespace }, Ok(0)) => {
                let need = Need::BoundClaims { namespace: namespace.clone() };
                return Assessment::Undecided(Self { need, ..self });
            }
            (_, Ok(0)) => return Assessment::Allowed,
            (Need::ActivePods { .. }, Ok(count)) => {
                format!("{FORBIDDEN} {CASCADING} and active pods {count}>0")
            }
            (Need::BoundClaims { .. }, Ok(count)) => {
                format!("{FORBIDDEN} {CASCADING} and \"Bound\" status pvc {count}>0")
            }
            (Need::CustomResources(_), Ok(count)) => {
                format!("{FORBIDDEN} {CASCADING} and active CRs {count}>0")
            }
        };
        refused(self.namespace, self.name, message)
    }
}

/// Decides a DELETE of `old_object`, seen in `version`, the version of the request
/// (docs/behaviour/deletion-protection.md#decision).
///
/// An absent `old_object` is allowed: API servers of old sent none.
pub fn assess(kind: Kind, version: &str, old_object: Option<&RawValue>, gates: &FeatureGates) -> Assessment {
    let Some(object) = old_object.filter(|object| object.get() != "null") else {
        return Assessment::Allowed;
    };
    match kind.version_policy(version) {
        VersionPolicy::Check => {}
        VersionPolicy::Allow => return Assessment::Allowed,
        VersionPolicy::Refuse => return invalid(format!("unsupported version: {version}")),
    }
    decide(kind, object, gates).unwrap_or_else(invalid)
}

/// The steps that all kinds share (docs/behaviour/deletion-protection.md#steps-of-the-decision). What lies
/// beside the metadata is read only where the protection hangs on it, so that an object which holds nonsense
/// can still go.
fn decide(kind: Kind, object: &RawValue, gates: &FeatureGates) -> Result<Assessment, String> {
    let unreadable = |error: &dyn Display| format!("the {} cannot be read: {error}", kind.name());
    if !object.get().starts_with('{') {
        return Err(unreadable(&"it is not a JSON object"));
    }
    let object: Object<'_> = json::from_str(object.get()).map_err(|error| unreadable(&error))?;
    if let Some(found) = object.kind.as_deref().filter(|found| !found.is_empty() && *found != kind.name()) {
        return Err(unreadable(&format_args!("it is a {found}")));
    }
    let protection = object.protection();
    if !gates.enabled(Feature::ResourcesDeletionProtection) || object.is_being_deleted() {
        return Ok(Assessment::Allowed);
    }
    Ok(match protection {
        Some("Always") => object.refuse(format!("{FORBIDDEN} {ALWAYS}")),
        Some("Cascading") => cascading(kind, &object, gates),
        _ => Assessment::Allowed,
    })
}

/// What `Cascading` means for the kind. An object that does not say what it holds is kept.
fn cascading(kind: Kind, object: &Object<'_>, gates: &FeatureGates) -> Assessment {
    let decided = match kind {
        Kind::Namespace => Ok(cascading_namespace(object)),
        Kind::CustomResourceDefinition => crd::cascading(object, gates),
        Kind::Service | Kind::Ingress => Ok(Assessment::Allowed),
        _ => cascading_workload(kind, object),
    };
    decided.unwrap_or_else(|error| {
        object.refuse(format!(
            "{FORBIDDEN} {CASCADING} and what it holds cannot be read ({error}): \
             correct the object, or remove the label to delete it as it is"
        ))
    })
}

/// Without a number a workload of ours wants 1 replica, as its controller reads it; the API server has filled
/// in the number of the others (docs/behaviour/deletion-protection.md#cascading-for-workloads).
fn cascading_workload(kind: Kind, object: &Object<'_>) -> Result<Assessment, serde_json::Error> {
    let default = i32::from(kind.is_kruise_workload());
    let spec: Option<WorkloadSpec> = object.spec()?;
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(default);
    if replicas > 0 {
        return Ok(object.refuse(format!("{FORBIDDEN} {CASCADING} and replicas {replicas}>0")));
    }
    Ok(Assessment::Allowed)
}

fn cascading_namespace(object: &Object<'_>) -> Assessment {
    let need = Need::ActivePods { namespace: object.name().to_owned() };
    Assessment::Undecided(Question { namespace: String::new(), name: object.name().to_owned(), need })
}

fn refused(namespace: String, name: String, message: String) -> Assessment {
    Assessment::Refused(Refusal { namespace, name, denial: Denial { code: 403, message } })
}

fn invalid(message: String) -> Assessment {
    Assessment::Invalid(Denial { code: 400, message })
}

/// The fields of an object that protection reads. No field has a serde default, so that a list is never
/// taken for an object.
#[derive(Deserialize)]
struct Object<'a> {
    kind: Option<String>,
    metadata: Option<Metadata>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    #[serde(rename = "deletionTimestamp")]
    deletion_timestamp: Option<IgnoredAny>,
    labels: Option<Labels>,
}

#[derive(Deserialize)]
struct Labels {
    /// [`api::labels::DELETE_PROTECTION`]
    #[serde(rename = "policy.kruise.io/delete-protection")]
    protection: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
}

#[derive(Deserialize)]
struct WorkloadSpec {
    replicas: Option<i32>,
}

impl<'a> Object<'a> {
    fn protection(&self) -> Option<&'static str> {
        let value = self.metadata.as_ref()?.labels.as_ref()?.protection.as_deref()?;
        ["Always", "Cascading"].into_iter().find(|known| *known == value)
    }

    fn is_being_deleted(&self) -> bool {
        self.metadata.as_ref().is_some_and(|metadata| metadata.deletion_timestamp.is_some())
    }

    fn name(&self) -> &str {
        self.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default()
    }

    /// The spec, as far as the kind reads it.
    fn spec<S: Deserialize<'a>>(&self) -> Result<Option<S>, serde_json::Error> {
        self.spec.map(|spec| json::from_str(spec.get())).transpose()
    }

    /// The status, as far as it is read.
    fn status(&self) -> Result<Option<Status>, serde_json::Error> {
        self.status.map(|status| json::from_str(status.get())).transpose()
    }

    fn refuse(&self, message: String) -> Assessment {
        let (namespace, name) = self.key();
        refused(namespace, name, message)
    }

    fn key(&self) -> (String, String) {
        let Some(metadata) = &self.metadata else { return Default::default() };
        (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
    }
}
