//! Divides Pods over subsets, such as zones or node types, and runs one workload for each subset from
//! one common template.
//!
//! Embedded specs are carried as text: `cloneSetTemplate.spec` reads as the
//! [`Spec`](super::cloneset::Spec) of a CloneSet, `advancedStatefulSetTemplate.spec` as the
//! [`Spec`](super::statefulset::Spec) of a StatefulSet.

use std::collections::BTreeMap;

use super::shared::{Condition, ConditionStatus, IntOrString, ScheduleStrategyType, WorkloadTemplate};
use super::{Object, Time};
use crate::Raw;
use crate::meta::LabelSelector;

/// Kind of a UnitedDeployment.
pub const KIND: &str = "UnitedDeployment";
/// Plural of a UnitedDeployment in request paths.
pub const PLURAL: &str = "uniteddeployments";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A UnitedDeployment.
pub type UnitedDeployment = Object<Spec, Status>;

objects! {
    /// `spec`: the workload to run, and the subsets to divide it over.
    pub struct Spec {
        /// The number of Pods wanted over all subsets. Default 1.
        pub replicas: Option<i32>,
        /// How many revisions of the template are kept in all. Default 10.
        pub revision_history_limit: Option<i32>,
        /// The Pods that belong to this UnitedDeployment. Must match the labels of the template.
        required pub selector: LabelSelector,
        /// What each subset runs. Exactly one kind of workload must be given.
        pub template: Template,
        /// The subsets, and how Pods are divided among them.
        pub topology: Topology,
        /// How a new template reaches the subsets.
        pub update_strategy: UpdateStrategy,
    }

    /// `spec.template`: what each subset runs. Exactly one kind of workload must be given.
    pub struct Template {
        /// Each subset is a StatefulSet of group apps.kruise.io.
        pub advanced_stateful_set_template: Option<WorkloadTemplate>,
        /// Each subset is a CloneSet.
        pub clone_set_template: Option<WorkloadTemplate>,
        /// Each subset is a built-in Deployment.
        pub deployment_template: Option<WorkloadTemplate>,
        /// Each subset is a built-in StatefulSet.
        pub stateful_set_template: Option<WorkloadTemplate>,
    }

    /// `spec.topology`: the subsets, and how Pods are divided among them.
    pub struct Topology {
        /// What happens to Pods that find no room in their subset.
        pub schedule_strategy: ScheduleStrategy,
        /// The subsets. With minReplicas and maxReplicas, and in adaptive mode, earlier ones are filled
        /// first.
        pub subsets: Vec<Subset>,
    }

    /// `spec.topology.scheduleStrategy`: what happens to Pods that find no room in their subset.
    pub struct ScheduleStrategy {
        /// Settings of type Adaptive.
        pub adaptive: Option<AdaptiveStrategy>,
        /// Fixed leaves such Pods waiting. Adaptive moves them to later subsets. Empty acts as Fixed.
        #[serde(rename = "type")]
        pub kind: Option<ScheduleStrategyType>,
    }

    /// `spec.topology.scheduleStrategy.adaptive`: settings of type Adaptive.
    pub struct AdaptiveStrategy {
        /// Seconds that a Pod may stay unschedulable before another subset takes over. Default 30.
        pub reschedule_critical_seconds: Option<i32>,
        /// Keep Pods that could not be scheduled waiting in their subset, and run temporary Pods in later
        /// subsets until they start. Default false: they are moved for good.
        pub reserve_unschedulable_pods: bool,
        /// Seconds for which a subset without room gets no further Pods. With reserveUnschedulablePods,
        /// seconds that a waiting Pod must be ready before it is trusted. Default 300.
        pub unschedulable_duration: Option<i32>,
    }

    /// `spec.topology.subsets[]`: the subsets. With minReplicas and maxReplicas, and in adaptive mode,
    /// earlier ones are filled first.
    pub struct Subset {
        /// The most Pods that the subset gets: a number, or a percentage of all replicas. Unset means no
        /// limit. Not together with replicas.
        pub max_replicas: Option<IntOrString>,
        /// The Pods that the subset gets before later ones get more: a number, or a percentage of all
        /// replicas. Default 0. Not together with replicas.
        pub min_replicas: Option<IntOrString>,
        /// The name of the subset, a DNS label and unique. It goes into label apps.kruise.io/subset-name of
        /// the Pods.
        required pub name: String,
        /// The nodes of the subset. Its matchExpressions are added to the required node affinity of the Pods.
        pub node_selector_term: Option<Raw>,
        /// Changes to the Pod template for this subset only, in the form of a strategic merge patch. Applied
        /// last.
        pub patch: Option<Raw>,
        /// The fixed share of the subset: a number, or a percentage of all replicas. Subsets without one
        /// divide what is left.
        pub replicas: Option<IntOrString>,
        /// Taints that the Pods put up with, appended to the tolerations that they already have.
        pub tolerations: Vec<Raw>,
    }

    /// `spec.updateStrategy`: how a new template reaches the subsets.
    pub struct UpdateStrategy {
        /// Settings of type Manual.
        pub manual_update: ManualUpdate,
        /// Manual, which is the only type and the default: subsets are updated as far as their partitions
        /// allow.
        #[serde(rename = "type")]
        pub kind: String,
    }

    /// `spec.updateStrategy.manualUpdate`: settings of type Manual.
    pub struct ManualUpdate {
        /// How many Pods of each subset are kept at the older revision, by subset name. Default 0.
        pub partitions: BTreeMap<String, i32>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// How often the name of a new ControllerRevision was already taken. It goes into the hash of the
        /// next name, so that a free one is found.
        pub collision_count: Option<i32>,
        /// Findings about the subsets as a whole.
        pub conditions: Vec<UnitedDeploymentCondition>,
        /// The name of the revision that was rolled out before. Becomes equal to the updated one when the
        /// rollout has finished.
        required pub current_revision: String,
        /// The selector in text form, such as "app=web". The scale subresource hands it to autoscalers, which
        /// find the Pods by it.
        pub label_selector: String,
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        pub observed_generation: Option<i64>,
        /// The number of ready Pods over all subsets.
        pub ready_replicas: Option<i32>,
        /// The number of Pods over all subsets, reserved ones not counted.
        required pub replicas: i32,
        /// The number of Pods that wait for room, over all subsets. 0 unless reserveUnschedulablePods is on.
        pub reserved_pods: Option<i32>,
        /// How each subset is doing.
        pub subset_statuses: Vec<SubsetStatus>,
        /// The number of Pods at the newest revision that are ready.
        pub updated_ready_replicas: Option<i32>,
        /// The number of Pods at the newest revision.
        required pub updated_replicas: i32,
        /// The name of the newest revision of the template.
        pub updated_revision: String,
    }

    /// `status.conditions[]`: findings about the subsets as a whole.
    pub struct UnitedDeploymentCondition {
        /// When the status of this condition last changed.
        pub last_transition_time: Option<Time>,
        /// Text for people with the details of the last change.
        pub message: String,
        /// One word in CamelCase, made for programs, that says why the condition has this status.
        pub reason: String,
        /// Whether the finding holds. True, False or Unknown.
        pub status: Option<ConditionStatus>,
        /// SubsetProvisioned, SubsetUpdated, SubsetFailure or UnitedDeploymentUpdated.
        #[serde(rename = "type")]
        pub kind: String,
    }

    /// `status.subsetStatuses[]`: how each subset is doing.
    pub struct SubsetStatus {
        /// Findings about the subset.
        pub conditions: Vec<Condition>,
        /// The name of the subset.
        pub name: String,
        /// The number of Pods that the subset keeps at the older revision.
        pub partition: Option<i32>,
        /// The number of ready Pods in the subset.
        pub ready_replicas: Option<i32>,
        /// The number of Pods that the subset should have.
        pub replicas: Option<i32>,
        /// The number of Pods in the subset that wait for room.
        pub reserved_pods: Option<i32>,
    }
}
