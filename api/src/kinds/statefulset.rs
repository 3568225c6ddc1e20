//! Runs Pods with stable names and volumes, as the built-in StatefulSet does, and adds updates in
//! place, parallel and ordered updates by priority, reserved ordinals, and resizing of volume claims.

use serde::{Deserialize, Serialize};

use super::Object;
use super::shared::{
    Condition, InPlaceUpdateStrategy, IntOrString, Lifecycle, PodUpdatePolicy, PriorityStrategy,
    UpdateStrategyType,
};
use crate::Raw;
use crate::meta::LabelSelector;

/// Kind of a StatefulSet.
pub const KIND: &str = "StatefulSet";
/// Plural of a StatefulSet in request paths.
pub const PLURAL: &str = "statefulsets";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A StatefulSet.
pub type StatefulSet = Object<Spec, Status>;

objects! {
    /// `spec`: the Pods and volumes to run, and how they are scaled and updated.
    pub struct Spec {
        /// Hooks with which another program can hold a Pod back before it serves, is updated in place, or is
        /// deleted. A hook is a set of labels and finalizers on the Pod.
        pub lifecycle: Lifecycle,
        /// How the Pods are numbered.
        pub ordinals: Ordinals,
        /// What happens to volume claims that are no longer in use. Needs feature gate
        /// StatefulSetAutoDeletePVC.
        pub persistent_volume_claim_retention_policy: PersistentVolumeClaimRetentionPolicy,
        /// OrderedReady creates Pods one after the other, each once the one before is ready, and removes them
        /// in reverse. Parallel does not wait. Default OrderedReady. Cannot be changed.
        pub pod_management_policy: Option<PodManagementPolicy>,
        /// The number of Pods wanted, reserved ordinals not counted. Default 1.
        pub replicas: Option<i32>,
        /// Numbers that no Pod may have: numbers, or ranges such as "3-5" that include both ends. A running
        /// Pod with such a number is deleted and replaced by one with the next free number.
        pub reserve_ordinals: Vec<IntOrString>,
        /// How many revisions that no Pod uses any more are kept for a rollback. Default 10.
        pub revision_history_limit: Option<i32>,
        /// How Pods are added and removed.
        pub scale_strategy: ScaleStrategy,
        /// The Pods that belong to this StatefulSet. Must match the labels of the template and cannot be
        /// changed.
        required pub selector: LabelSelector,
        /// The headless Service under which the Pods have their DNS names. Cannot be changed.
        pub service_name: String,
        /// The Pod to create, with metadata and spec. A change makes a new revision and starts a rollout.
        pub template: Option<Raw>,
        /// How Pods of an older revision come to the newest one.
        pub update_strategy: UpdateStrategy,
        /// Volume claims, one of each made for every Pod and kept for the next Pod with the same ordinal.
        pub volume_claim_templates: Option<Raw>,
        /// What happens to existing volume claims when volumeClaimTemplates change. Needs feature gate
        /// StatefulSetAutoResizePVCGate.
        pub volume_claim_update_strategy: VolumeClaimUpdateStrategy,
    }

    /// `spec.ordinals`: how the Pods are numbered.
    pub struct Ordinals {
        /// The number of the first Pod. Default 0. Needs feature gate StatefulSetStartOrdinal.
        pub start: Option<i32>,
    }

    /// `spec.persistentVolumeClaimRetentionPolicy`: what happens to volume claims that are no longer in use.
    /// Needs feature gate StatefulSetAutoDeletePVC.
    pub struct PersistentVolumeClaimRetentionPolicy {
        /// When the StatefulSet is deleted: Retain keeps the claims, Delete deletes them with it. Default
        /// Retain.
        pub when_deleted: Option<ClaimRetention>,
        /// When a Pod is removed by scaling down: Retain keeps its claims, Delete deletes them with it.
        /// Default Retain.
        pub when_scaled: Option<ClaimRetention>,
    }

    /// `spec.scaleStrategy`: how Pods are added and removed.
    pub struct ScaleStrategy {
        /// How many Pods may be unavailable while Pods are added: a number, or a percentage of replicas,
        /// rounded down, at least 1. Other values than 1 need podManagementPolicy Parallel. Unset means no
        /// limit.
        pub max_unavailable: Option<IntOrString>,
    }

    /// `spec.updateStrategy`: how Pods of an older revision come to the newest one.
    pub struct UpdateStrategy {
        /// Settings of type RollingUpdate.
        pub rolling_update: RollingUpdate,
        /// RollingUpdate replaces old Pods step by step. OnDelete waits until somebody deletes them. Default
        /// RollingUpdate.
        #[serde(rename = "type")]
        pub kind: Option<UpdateStrategyType>,
    }

    /// `spec.updateStrategy.rollingUpdate`: settings of type RollingUpdate.
    pub struct RollingUpdate {
        /// Settings for updates that change containers of the running Pod instead of recreating it.
        pub in_place_update_strategy: InPlaceUpdateStrategy,
        /// How many Pods may be unavailable during an update: a number, or a percentage of replicas, rounded
        /// down, at least 1. Other values than 1 need podManagementPolicy Parallel. Default 1.
        pub max_unavailable: Option<IntOrString>,
        /// Seconds that a Pod must be ready before it counts as available, from 0 to 300. Default 0.
        pub min_ready_seconds: Option<i32>,
        /// How many Pods are kept at the older revision. It is a number of Pods, which equals the lowest
        /// ordinal to update only where no ordinal is reserved. Default 0.
        pub partition: Option<i32>,
        /// Update no Pods. Scaling continues. Default false.
        pub paused: bool,
        /// ReCreate deletes and creates Pods. InPlaceIfPossible changes the running Pod where only images,
        /// metadata or other changeable parts differ, and recreates it otherwise. InPlaceOnly refuses changes
        /// that would need a new Pod. Default ReCreate.
        pub pod_update_policy: Option<PodUpdatePolicy>,
        /// Update Pods in the order of a priority instead of from the highest ordinal down. Present but empty
        /// means Pods that are not ready first. Needs podManagementPolicy Parallel.
        pub unordered_update: Option<UnorderedUpdate>,
    }

    /// `spec.updateStrategy.rollingUpdate.unorderedUpdate`: update Pods in the order of a priority instead of
    /// from the highest ordinal down. Present but empty means Pods that are not ready first.
    pub struct UnorderedUpdate {
        /// Which Pods are updated first. Set weightPriority or orderPriority, not both. Without it, Pods that
        /// are not running or not ready go first.
        pub priority_strategy: PriorityStrategy,
    }

    /// `spec.volumeClaimUpdateStrategy`: what happens to existing volume claims when volumeClaimTemplates
    /// change. Needs feature gate StatefulSetAutoResizePVCGate.
    pub struct VolumeClaimUpdateStrategy {
        /// OnDelete leaves existing claims alone. OnPodRollingUpdate enlarges the claims of each Pod as the
        /// rollout reaches it. Default OnDelete.
        #[serde(rename = "type")]
        pub kind: Option<ClaimUpdateType>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The number of Pods that have been ready for minReadySeconds.
        required pub available_replicas: i32,
        /// How often the name of a new ControllerRevision was already taken. It goes into the hash of the
        /// next name, so that a free one is found.
        pub collision_count: Option<i32>,
        /// Findings about creating and updating Pods.
        pub conditions: Vec<Condition>,
        /// The number of Pods at currentRevision.
        required pub current_replicas: i32,
        /// The name of the revision that was rolled out before. Becomes equal to updateRevision when the
        /// rollout has finished.
        pub current_revision: String,
        /// The selector in text form, such as "app=web". The scale subresource hands it to autoscalers, which
        /// find the Pods by it.
        pub label_selector: String,
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        pub observed_generation: Option<i64>,
        /// The number of Pods that are running and ready.
        required pub ready_replicas: i32,
        /// The number of Pods that exist.
        required pub replicas: i32,
        /// The name of the newest revision, the one that the template describes.
        pub update_revision: String,
        /// The number of Pods at updateRevision that are available.
        pub updated_available_replicas: Option<i32>,
        /// The number of Pods at updateRevision that are ready.
        pub updated_ready_replicas: Option<i32>,
        /// The number of Pods at updateRevision.
        required pub updated_replicas: i32,
        /// How far existing claims agree with volumeClaimTemplates, one entry for each template.
        pub volume_claims: Vec<VolumeClaimStatus>,
    }

    /// `status.volumeClaims[]`: how far existing claims agree with volumeClaimTemplates, one entry for each
    /// template.
    pub struct VolumeClaimStatus {
        /// The number of ready Pods whose claim agrees with the template.
        required pub compatible_ready_replicas: i32,
        /// The number of Pods whose claim agrees with the template.
        required pub compatible_replicas: i32,
        /// The name of the template.
        required pub volume_claim_name: String,
    }
}

/// The order in which Pods are created and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum PodManagementPolicy {
    /// One after the other, each once the one before is ready.
    #[default]
    #[serde(alias = "")]
    OrderedReady,
    /// All at once.
    Parallel,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// What happens to volume claims that are no longer in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ClaimRetention {
    /// They stay.
    #[default]
    #[serde(alias = "")]
    Retain,
    /// They are deleted.
    Delete,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// What happens to existing volume claims when their templates change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ClaimUpdateType {
    /// They are left alone.
    #[default]
    #[serde(alias = "")]
    OnDelete,
    /// They are enlarged as the rollout reaches their Pod.
    OnPodRollingUpdate,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
