//! Copies one Secret or ConfigMap into many namespaces and keeps the copies equal to it.

use super::shared::ConditionStatus;
use super::{Object, Time};
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

objects! {
    /// `spec`: what to distribute, and to which namespaces.
    pub struct Spec {
        /// The complete object to distribute, a Secret or a ConfigMap with apiVersion, kind and
        /// metadata.name. Its namespace is ignored.
        pub resource: Option<Raw>,
        /// The namespaces to distribute to. The ways to choose add up; excludedNamespaces wins over all of
        /// them. Empty chooses none.
        required pub targets: Targets,
    }

    /// `spec.targets`: the namespaces to distribute to. The ways to choose add up; excludedNamespaces wins
    /// over all of them. Empty chooses none.
    pub struct Targets {
        /// Distribute to every namespace. Default false.
        pub all_namespaces: bool,
        /// Namespaces that never get a copy, whatever else chooses them.
        pub excluded_namespaces: NamespaceList,
        /// Namespaces that get a copy, chosen by name.
        pub included_namespaces: NamespaceList,
        /// Distribute to namespaces with these labels, also when they are created later.
        pub namespace_selector: Option<LabelSelector>,
    }

    /// `spec.targets.excludedNamespaces`: namespaces that never get a copy, whatever else chooses them.
    pub struct NamespaceList {
        /// The namespaces to leave out.
        pub list: Vec<Namespace>,
    }

    /// `spec.targets.excludedNamespaces.list[]`: the namespaces to leave out.
    pub struct Namespace {
        /// The name of a namespace to leave out.
        pub name: String,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// One entry for each sort of failure, always all six.
        pub conditions: Vec<DistributionCondition>,
        /// The number of namespaces that should have a copy, listed ones that do not exist included.
        pub desired: Option<i32>,
        /// The number of namespaces that should have a copy and do not have the right one.
        pub failed: Option<i32>,
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        pub observed_generation: Option<i64>,
        /// The number of namespaces that have the right copy.
        pub succeeded: Option<i32>,
    }

    /// `status.conditions[]`: one entry for each sort of failure, always all six.
    pub struct DistributionCondition {
        /// The namespaces in which this sort of failure happened.
        pub failed_namespaces: Vec<String>,
        /// When the status of this condition last changed.
        pub last_transition_time: Option<Time>,
        /// Succeeded, or the text of the last failure of this sort.
        pub reason: String,
        /// True if there are failures of this sort, False otherwise.
        required pub status: ConditionStatus,
        /// GetResourceFailed, CreateResourceFailed, UpdateResourceFailed, DeleteResourceFailed,
        /// ConflictOccurred or NamespaceNotExists.
        #[serde(rename = "type")]
        required pub kind: String,
    }
}
