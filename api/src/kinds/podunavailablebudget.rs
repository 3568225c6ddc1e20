//! Limits how many Pods of an application may be unavailable at once. Guards deletions, evictions, in-
//! place updates and resizes, not only evictions as a PodDisruptionBudget does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::shared::IntOrString;
use super::{Object, Time};
use crate::meta::LabelSelector;

/// Kind of a PodUnavailableBudget.
pub const KIND: &str = "PodUnavailableBudget";
/// Plural of a PodUnavailableBudget in request paths.
pub const PLURAL: &str = "podunavailablebudgets";
/// The group and version of these types.
pub const API_VERSION: &str = "policy.kruise.io/v1beta1";

/// A PodUnavailableBudget.
pub type PodUnavailableBudget = Object<Spec, Status>;

objects! {
    /// `spec`: the Pods to protect, and how many of them may be unavailable.
    pub struct Spec {
        /// Pods with these labels are never held back by the budget. Must not be empty when set.
        pub ignored_pod_selector: Option<LabelSelector>,
        /// How many Pods may be unavailable: a number, or a percentage of the total, rounded up. Exactly one
        /// of maxUnavailable and minAvailable must be set.
        pub max_unavailable: Option<IntOrString>,
        /// How many Pods must stay available: a number, or a percentage of the total, rounded up. Exactly one
        /// of maxUnavailable and minAvailable must be set.
        pub min_available: Option<IntOrString>,
        /// The operations that are held back when the budget is used up: DELETE, UPDATE, EVICT, RESIZE. Empty
        /// means DELETE, UPDATE and EVICT.
        pub protect_operations: Vec<ProtectOperation>,
        /// The total that percentages and maxUnavailable are computed from, instead of the replicas of the
        /// workloads. At least 1.
        pub protect_total_replicas: Option<i32>,
        /// The Pods of the budget, in its namespace. Exactly one of selector and targetRef must be set. Must
        /// not be empty and cannot be changed.
        pub selector: Option<LabelSelector>,
        /// The workload whose Pods the budget is for. Exactly one of selector and targetRef must be set.
        /// Cannot be changed.
        pub target_ref: Option<TargetReference>,
    }

    /// `spec.targetRef`: the workload whose Pods the budget is for. Exactly one of selector and targetRef
    /// must be set. Cannot be changed.
    pub struct TargetReference {
        /// The API group and version of the workload, for example apps/v1. Only the group matters.
        pub api_version: String,
        /// The kind of the workload, for example Deployment or CloneSet.
        pub kind: String,
        /// The name of the workload, in the same namespace.
        pub name: String,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The number of Pods that are available now.
        required pub current_available: i32,
        /// The number of Pods that must be available.
        required pub desired_available: i32,
        /// Pods whose deletion, eviction or resize was admitted but not seen yet, with the time of their
        /// admission.
        pub disrupted_pods: BTreeMap<String, Time>,
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        pub observed_generation: Option<i64>,
        /// The total that the budget was computed from.
        required pub total_replicas: i32,
        /// How many more Pods may become unavailable right now.
        required pub unavailable_allowed: i32,
        /// Pods whose update was admitted a short time ago, with the time of their admission.
        pub unavailable_pods: BTreeMap<String, Time>,
    }
}

/// An operation that a budget can hold back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum ProtectOperation {
    /// Deletion of the Pod.
    #[serde(rename = "DELETE")]
    Delete,
    /// An update in place of its containers.
    #[serde(rename = "UPDATE")]
    Update,
    /// Eviction through the subresource.
    #[serde(rename = "EVICT")]
    Evict,
    /// A resize in place of its resources.
    #[serde(rename = "RESIZE")]
    Resize,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
