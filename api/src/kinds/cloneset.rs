//! Keeps a number of like Pods running, as a Deployment does, but owns them directly: Pods can be
//! updated in place, held by partition, and chosen one by one for deletion.

use super::shared::{
    ConditionStatus, InPlaceUpdateStrategy, IntOrString, Lifecycle, PodUpdatePolicy, PriorityStrategy,
    ScatterTerm, UpdateStrategyType,
};
use super::{Object, Time};
use crate::Raw;
use crate::meta::LabelSelector;

/// Kind of a CloneSet.
pub const KIND: &str = "CloneSet";
/// Plural of a CloneSet in request paths.
pub const PLURAL: &str = "clonesets";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A CloneSet.
pub type CloneSet = Object<Spec, Status>;

objects! {
    /// `spec`: the Pods to run, and how they are scaled and updated.
    pub struct Spec {
        /// Hooks with which another program can hold a Pod back before it serves, is updated in place, or is
        /// deleted. A hook is a set of labels and finalizers on the Pod.
        pub lifecycle: Lifecycle,
        /// Seconds that a Pod must be ready before it counts as available. Default 0.
        pub min_ready_seconds: Option<i32>,
        /// Seconds without progress after which the Progressing condition says that the rollout timed out.
        /// The rollout continues all the same. Unset, and 2147483647, switch the condition off.
        pub progress_deadline_seconds: Option<i32>,
        /// The number of Pods wanted. Default 1.
        pub replicas: Option<i32>,
        /// How many revisions that no Pod uses any more are kept for a rollback. Default 10.
        pub revision_history_limit: Option<i32>,
        /// How Pods are added and removed.
        pub scale_strategy: ScaleStrategy,
        /// The Pods that belong to this CloneSet. Must match the labels of the template and cannot be
        /// changed.
        required pub selector: LabelSelector,
        /// The Pod to create, with metadata and spec, as in a Deployment. A change makes a new revision and
        /// starts a rollout.
        pub template: Option<Raw>,
        /// How Pods of an older revision come to the newest one.
        pub update_strategy: UpdateStrategy,
        /// Volume claims, one of each made for every Pod and owned by this object. A template with the name
        /// of a volume in the Pod replaces that volume.
        pub volume_claim_templates: Option<Raw>,
    }

    /// `spec.scaleStrategy`: how Pods are added and removed.
    pub struct ScaleStrategy {
        /// Give the volume claims, and with them the name, of a Pod that somebody else deleted to its
        /// replacement. Default false: the claims are deleted with the Pod.
        #[serde(rename = "enablePVCReuse")]
        pub enable_pvc_reuse: bool,
        /// Leave Pods in state PreparingDelete out when Pods are counted for scaling, so that replacements
        /// start at once. Default false.
        pub exclude_preparing_delete: bool,
        /// How many Pods may be unavailable while Pods are added: a number, or a percentage of replicas,
        /// rounded up. Unset means no limit.
        pub max_unavailable: Option<IntOrString>,
        /// Names of the Pods to delete first. Lower replicas as well to shrink; otherwise they are replaced.
        /// The controller removes names whose Pod is gone.
        pub pods_to_delete: Vec<String>,
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
        /// How many Pods may exist above replicas during an update: a number, or a percentage of replicas,
        /// rounded up. Counts as 0 while paused. Default 0.
        pub max_surge: Option<IntOrString>,
        /// How many Pods may be unavailable during an update: a number, or a percentage of replicas, rounded
        /// up, or down when maxSurge is in use. Not 0 together with a maxSurge of 0. Default 20%.
        pub max_unavailable: Option<IntOrString>,
        /// How many Pods are kept at older revisions: a number, or a percentage of replicas, rounded up.
        /// Lower it step by step for a gradual rollout. Default 0.
        pub partition: Option<IntOrString>,
        /// Update no Pods. Scaling continues. Default false.
        pub paused: bool,
        /// ReCreate deletes and creates Pods. InPlaceIfPossible changes the running Pod where only images,
        /// metadata or other changeable parts differ, and recreates it otherwise. InPlaceOnly refuses changes
        /// that would need a new Pod. Default ReCreate.
        pub pod_update_policy: Option<PodUpdatePolicy>,
        /// Which Pods are updated first. Set weightPriority or orderPriority, not both. Without it, Pods that
        /// are not running or not ready go first.
        pub priority_strategy: PriorityStrategy,
        /// Spreads Pods that carry one of these labels evenly over the order of the update, so that they are
        /// not updated right after one another. Applied after priorityStrategy.
        pub scatter_strategy: Vec<ScatterTerm>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The number of Pods that have been ready for minReadySeconds.
        required pub available_replicas: i32,
        /// How often the name of a new ControllerRevision was already taken. It goes into the hash of the
        /// next name, so that a free one is found.
        pub collision_count: Option<i32>,
        /// Findings about scaling and updating.
        pub conditions: Vec<CloneSetCondition>,
        /// The revision that was rolled out before. Becomes equal to updateRevision when every Pod has been
        /// updated.
        pub current_revision: String,
        /// How many Pods should be at updateRevision, which is replicas less partition.
        pub expected_updated_replicas: Option<i32>,
        /// The selector in text form, such as "app=web". The scale subresource hands it to autoscalers, which
        /// find the Pods by it.
        pub label_selector: String,
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        pub observed_generation: Option<i64>,
        /// The number of Pods that are running and ready.
        required pub ready_replicas: i32,
        /// The number of Pods that exist, those that have ended or are terminating left out.
        required pub replicas: i32,
        /// The name of the newest revision, the one that the template describes.
        pub update_revision: String,
        /// The number of Pods at updateRevision that are available.
        pub updated_available_replicas: Option<i32>,
        /// The number of Pods at updateRevision that are ready.
        required pub updated_ready_replicas: i32,
        /// The number of Pods at updateRevision.
        required pub updated_replicas: i32,
    }

    /// `status.conditions[]`: findings about scaling and updating.
    pub struct CloneSetCondition {
        /// When the status of this condition last changed.
        pub last_transition_time: Option<Time>,
        /// When this condition was last written, changes of reason or message included.
        pub last_update_time: Option<Time>,
        /// Text for people with the details of the last change.
        pub message: String,
        /// One word in CamelCase, made for programs, that says why the condition has this status.
        pub reason: String,
        /// Whether the finding holds. True, False or Unknown.
        required pub status: ConditionStatus,
        /// Progressing, FailedScale or FailedUpdate.
        #[serde(rename = "type")]
        required pub kind: String,
    }
}
