//! Divides the Pods of a workload over subsets of nodes, in order and up to a maximum for each, by
//! adding affinity, tolerations and patches to each Pod when it is created.

use std::collections::BTreeMap;

use super::shared::{IntOrString, MetaCondition, ScheduleStrategyType, TargetReference};
use super::{Object, Time};
use crate::Raw;
use crate::meta::LabelSelector;

/// Kind of a WorkloadSpread.
pub const KIND: &str = "WorkloadSpread";
/// Plural of a WorkloadSpread in request paths.
pub const PLURAL: &str = "workloadspreads";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A WorkloadSpread.
pub type WorkloadSpread = Object<Spec, Status>;

objects! {
    /// `spec`: the workload, and the subsets to divide its Pods over.
    pub struct Spec {
        /// What happens to Pods that find no room in their subset.
        pub schedule_strategy: ScheduleStrategy,
        /// The subsets. Pods go to the first one that has room.
        required pub subsets: Vec<Subset>,
        /// Manage only some of the workload's Pods, for workloads with Pods of several sorts.
        pub target_filter: Option<TargetFilter>,
        /// The workload whose Pods are divided, in the same namespace.
        required pub target_ref: TargetReference,
    }

    /// `spec.scheduleStrategy`: what happens to Pods that find no room in their subset.
    pub struct ScheduleStrategy {
        /// Settings of type Adaptive.
        pub adaptive: Option<AdaptiveStrategy>,
        /// Fixed leaves such Pods waiting. Adaptive moves them to later subsets. Empty acts as Fixed.
        #[serde(rename = "type")]
        pub kind: Option<ScheduleStrategyType>,
    }

    /// `spec.scheduleStrategy.adaptive`: settings of type Adaptive.
    pub struct AdaptiveStrategy {
        /// Accepted for compatibility and without effect: scheduling is not simulated.
        pub disable_simulation_schedule: bool,
        /// Seconds that a Pod may stay unschedulable before it is deleted, so that its replacement goes to
        /// the next subset. Unset and 0 switch this off.
        pub reschedule_critical_seconds: Option<i32>,
    }

    /// `spec.subsets[]`: the subsets. Pods go to the first one that has room.
    pub struct Subset {
        /// The most Pods of one version of the workload in this subset: a number, or a percentage of the
        /// workload's replicas, rounded up. Unset means no limit.
        pub max_replicas: Option<IntOrString>,
        /// The name of the subset, unique in this object.
        required pub name: String,
        /// Changes to the Pods of this subset, in the form of a strategic merge patch on the Pod.
        pub patch: Option<Raw>,
        /// Nodes that the Pods of this subset should go to, added to their preferred node affinity.
        pub preferred_node_selector: Vec<Raw>,
        /// Nodes that the Pods of this subset must go to, added to their required node affinity.
        pub required_node_selector: Option<Raw>,
        /// Taints that the Pods put up with, appended to the tolerations that they already have.
        pub tolerations: Vec<Raw>,
    }

    /// `spec.targetFilter`: manage only some of the workload's Pods, for workloads with Pods of several
    /// sorts.
    pub struct TargetFilter {
        /// Where the workload says how many Pods it wants, as dotted paths such as spec.replicas or
        /// spec.groups.0.replicas. The numbers found are added up.
        pub replicas_path_list: Vec<String>,
        /// Labels of the Pods to manage.
        pub selector: Option<LabelSelector>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        pub observed_generation: Option<i64>,
        /// How each subset is doing, all versions of the workload together.
        pub subset_statuses: Vec<SubsetStatus>,
        /// How each subset is doing, by version of the workload. Admission takes free places from here.
        pub versioned_subset_statuses: BTreeMap<String, Vec<SubsetStatus>>,
    }

    /// `status.subsetStatuses[]`: how each subset is doing, all versions of the workload together.
    pub struct SubsetStatus {
        /// Named findings about the object, at most one of each type.
        pub conditions: Vec<MetaCondition>,
        /// Pods that were admitted to the subset but not seen yet, with the time of their admission.
        pub creating_pods: BTreeMap<String, Time>,
        /// Pods of the subset whose deletion was admitted but not seen yet, with the time of their admission.
        pub deleting_pods: BTreeMap<String, Time>,
        /// The number of free places in the subset, or -1 when it has no limit.
        required pub missing_replicas: i32,
        /// The name of the subset.
        required pub name: String,
        /// The number of active Pods in the subset.
        required pub replicas: i32,
    }
}
