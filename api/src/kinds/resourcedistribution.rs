//! Copies one Secret or ConfigMap into many namespaces and keeps the copies equal to it.

use serde::{Deserialize, Serialize};

use super::shared::ConditionStatus;
use super::{Object, Time, is_default, null_is_default};
use crate::Raw;
use crate::meta::LabelSelector;

/// Kind of a ResourceDistribution.
pub const KIND: &str = "ResourceDistribution";
/// Plural of a ResourceDistribution in request paths.
pub const PLURAL: &str = "resourcedistributions";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A ResourceDistribution.
pub type ResourceDistribution = Object<Spec, Status>;

/// `spec`: what to distribute, and to which namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The complete object to distribute, a Secret or a ConfigMap with apiVersion, kind and
    /// metadata.name. Its namespace is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Raw>,
    /// The namespaces to distribute to. The ways to choose add up; excludedNamespaces wins over all of
    /// them. Empty chooses none.
    #[serde(deserialize_with = "null_is_default")]
    pub targets: Targets,
}

/// `spec.targets`: the namespaces to distribute to. The ways to choose add up; excludedNamespaces wins
/// over all of them. Empty chooses none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Targets {
    /// Distribute to every namespace. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub all_namespaces: bool,
    /// Namespaces that never get a copy, whatever else chooses them.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub excluded_namespaces: NamespaceList,
    /// Namespaces that get a copy, chosen by name.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub included_namespaces: NamespaceList,
    /// Distribute to namespaces with these labels, also when they are created later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// `spec.targets.excludedNamespaces`: namespaces that never get a copy, whatever else chooses them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceList {
    /// The namespaces to leave out.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub list: Vec<Namespace>,
}

/// `spec.targets.excludedNamespaces.list[]`: the namespaces to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Namespace {
    /// The name of a namespace to leave out.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub name: String,
}

/// `status`: what the controller last observed. Written by the controller only, through the status
/// subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// One entry for each sort of failure, always all six.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub conditions: Vec<DistributionCondition>,
    /// The number of namespaces that should have a copy, listed ones that do not exist included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// The number of namespaces that should have a copy and do not have the right one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// The metadata.generation that this status was computed from. When it is lower than
    /// metadata.generation the controller has not handled the newest spec yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of namespaces that have the right copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
}

/// `status.conditions[]`: one entry for each sort of failure, always all six.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DistributionCondition {
    /// The namespaces in which this sort of failure happened.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub failed_namespaces: Vec<String>,
    /// When the status of this condition last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Succeeded, or the text of the last failure of this sort.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub reason: String,
    /// True if there are failures of this sort, False otherwise.
    #[serde(deserialize_with = "null_is_default")]
    pub status: ConditionStatus,
    /// GetResourceFailed, CreateResourceFailed, UpdateResourceFailed, DeleteResourceFailed,
    /// ConflictOccurred or NamespaceNotExists.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub kind: String,
}
