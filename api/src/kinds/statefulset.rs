//! Runs Pods with stable names and volumes, as the built-in StatefulSet does, and adds updates in
//! place, parallel and ordered updates by priority, reserved ordinals, and resizing of volume claims.

use serde::{Deserialize, Serialize};

use super::shared::{
    Condition, InPlaceUpdateStrategy, IntOrString, Lifecycle, PodUpdatePolicy, PriorityStrategy,
    UpdateStrategyType,
};
use super::{Object, is_default, null_is_default};
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

/// `spec`: the Pods and volumes to run, and how they are scaled and updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Hooks with which another program can hold a Pod back before it serves, is updated in place, or is
    /// deleted. A hook is a set of labels and finalizers on the Pod.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub lifecycle: Lifecycle,
    /// How the Pods are numbered.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub ordinals: Ordinals,
    /// What happens to volume claims that are no longer in use. Needs feature gate
    /// StatefulSetAutoDeletePVC.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub persistent_volume_claim_retention_policy: PersistentVolumeClaimRetentionPolicy,
    /// OrderedReady creates Pods one after the other, each once the one before is ready, and removes them
    /// in reverse. Parallel does not wait. Default OrderedReady. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_management_policy: Option<PodManagementPolicy>,
    /// The number of Pods wanted, reserved ordinals not counted. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Numbers that no Pod may have: numbers, or ranges such as "3-5" that include both ends. A running
    /// Pod with such a number is deleted and replaced by one with the next free number.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub reserve_ordinals: Vec<IntOrString>,
    /// How many revisions that no Pod uses any more are kept for a rollback. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// How Pods are added and removed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub scale_strategy: ScaleStrategy,
    /// The Pods that belong to this StatefulSet. Must match the labels of the template and cannot be
    /// changed.
    #[serde(deserialize_with = "null_is_default")]
    pub selector: LabelSelector,
    /// The headless Service under which the Pods have their DNS names. Cannot be changed.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub service_name: String,
    /// The Pod to create, with metadata and spec. A change makes a new revision and starts a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Raw>,
    /// How Pods of an older revision come to the newest one.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub update_strategy: UpdateStrategy,
    /// Volume claims, one of each made for every Pod and kept for the next Pod with the same ordinal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_templates: Option<Raw>,
    /// What happens to existing volume claims when volumeClaimTemplates change. Needs feature gate
    /// StatefulSetAutoResizePVCGate.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub volume_claim_update_strategy: VolumeClaimUpdateStrategy,
}

/// `spec.ordinals`: how the Pods are numbered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ordinals {
    /// The number of the first Pod. Default 0. Needs feature gate StatefulSetStartOrdinal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<i32>,
}

/// `spec.persistentVolumeClaimRetentionPolicy`: what happens to volume claims that are no longer in use.
/// Needs feature gate StatefulSetAutoDeletePVC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimRetentionPolicy {
    /// When the StatefulSet is deleted: Retain keeps the claims, Delete deletes them with it. Default
    /// Retain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_deleted: Option<ClaimRetention>,
    /// When a Pod is removed by scaling down: Retain keeps its claims, Delete deletes them with it.
    /// Default Retain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_scaled: Option<ClaimRetention>,
}

/// `spec.scaleStrategy`: how Pods are added and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleStrategy {
    /// How many Pods may be unavailable while Pods are added: a number, or a percentage of replicas,
    /// rounded down, at least 1. Other values than 1 need podManagementPolicy Parallel. Unset means no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

/// `spec.updateStrategy`: how Pods of an older revision come to the newest one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// Settings of type RollingUpdate.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub rolling_update: RollingUpdate,
    /// RollingUpdate replaces old Pods step by step. OnDelete waits until somebody deletes them. Default
    /// RollingUpdate.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<UpdateStrategyType>,
}

/// `spec.updateStrategy.rollingUpdate`: settings of type RollingUpdate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// Settings for updates that change containers of the running Pod instead of recreating it.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub in_place_update_strategy: InPlaceUpdateStrategy,
    /// How many Pods may be unavailable during an update: a number, or a percentage of replicas, rounded
    /// down, at least 1. Other values than 1 need podManagementPolicy Parallel. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Seconds that a Pod must be ready before it counts as available, from 0 to 300. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// How many Pods are kept at the older revision. It is a number of Pods, which equals the lowest
    /// ordinal to update only where no ordinal is reserved. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Update no Pods. Scaling goes on. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub paused: bool,
    /// ReCreate deletes and creates Pods. InPlaceIfPossible changes the running Pod where only images,
    /// metadata or other changeable parts differ, and recreates it otherwise. InPlaceOnly refuses changes
    /// that would need a new Pod. Default ReCreate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_update_policy: Option<PodUpdatePolicy>,
    /// Update Pods in the order of a priority instead of from the highest ordinal down. Present but empty
    /// means Pods that are not ready first. Needs podManagementPolicy Parallel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unordered_update: Option<UnorderedUpdate>,
}

/// `spec.updateStrategy.rollingUpdate.unorderedUpdate`: update Pods in the order of a priority instead of
/// from the highest ordinal down. Present but empty means Pods that are not ready first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnorderedUpdate {
    /// Which Pods are updated first. Set weightPriority or orderPriority, not both. Without it, Pods that
    /// are not running or not ready go first.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub priority_strategy: PriorityStrategy,
}

/// `spec.volumeClaimUpdateStrategy`: what happens to existing volume claims when volumeClaimTemplates
/// change. Needs feature gate StatefulSetAutoResizePVCGate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaimUpdateStrategy {
    /// OnDelete leaves existing claims alone. OnPodRollingUpdate enlarges the claims of each Pod as the
    /// rollout reaches it. Default OnDelete.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ClaimUpdateType>,
}

/// `status`: what the controller last observed. Written by the controller only, through the status
/// subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The number of Pods that have been ready for minReadySeconds.
    #[serde(deserialize_with = "null_is_default")]
    pub available_replicas: i32,
    /// How often the name of a new ControllerRevision was already taken. It goes into the hash of the
    /// next name, so that a free one is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Findings about creating and updating Pods.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// The number of Pods at currentRevision.
    #[serde(deserialize_with = "null_is_default")]
    pub current_replicas: i32,
    /// The name of the revision that was rolled out before. Becomes equal to updateRevision when the
    /// rollout has finished.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub current_revision: String,
    /// The selector in text form, such as "app=web". The scale subresource hands it to autoscalers, which
    /// find the Pods by it.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub label_selector: String,
    /// The metadata.generation that this status was computed from. When it is lower than
    /// metadata.generation the controller has not handled the newest spec yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of Pods that are running and ready.
    #[serde(deserialize_with = "null_is_default")]
    pub ready_replicas: i32,
    /// The number of Pods that exist.
    #[serde(deserialize_with = "null_is_default")]
    pub replicas: i32,
    /// The name of the newest revision, the one that the template describes.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub update_revision: String,
    /// The number of Pods at updateRevision that are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_available_replicas: Option<i32>,
    /// The number of Pods at updateRevision that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_ready_replicas: Option<i32>,
    /// The number of Pods at updateRevision.
    #[serde(deserialize_with = "null_is_default")]
    pub updated_replicas: i32,
    /// How far existing claims agree with volumeClaimTemplates, one entry for each template.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub volume_claims: Vec<VolumeClaimStatus>,
}

/// `status.volumeClaims[]`: how far existing claims agree with volumeClaimTemplates, one entry for each
/// template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaimStatus {
    /// The number of ready Pods whose claim agrees with the template.
    #[serde(deserialize_with = "null_is_default")]
    pub compatible_ready_replicas: i32,
    /// The number of Pods whose claim agrees with the template.
    #[serde(deserialize_with = "null_is_default")]
    pub compatible_replicas: i32,
    /// The name of the template.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_claim_name: String,
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
