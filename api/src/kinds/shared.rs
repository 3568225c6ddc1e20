//! Types that several kinds have in common.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Time;
use crate::Raw;
use crate::meta::LabelSelectorRequirement;
pub use crate::sidecarset::{IntOrString, OrderTerm, PriorityStrategy, ScatterTerm, WeightTerm};

objects! {
    /// Hooks with which another program can hold a Pod back before it serves, is updated in place, or is
    /// deleted.
    pub struct Lifecycle {
        /// Holds a Pod before its update in place: while any listed finalizer or label is on it the Pod waits
        /// in state PreparingUpdate. After the update it waits in state Updated until all of them are on it
        /// again.
        pub in_place_update: Option<LifecycleHook>,
        /// Holds a Pod that the controller wants to delete in state PreparingDelete, for as long as any
        /// listed finalizer or label is on it.
        pub pre_delete: Option<LifecycleHook>,
        /// Holds a new Pod in state PreparingNormal, where it does not count as available, until every listed
        /// finalizer and label is on it.
        pub pre_normal: Option<LifecycleHook>,
    }

    /// One hook: labels and finalizers on the Pod.
    pub struct LifecycleHook {
        /// Finalizers on the Pod that make up the hook. They also keep the Pod object from vanishing when
        /// somebody else deletes it.
        pub finalizers_handler: Vec<String>,
        /// Labels on the Pod, with these exact values, that make up the hook.
        pub labels_handler: BTreeMap<String, String>,
        /// Make the Pod not ready while the hook holds it, so that Services take it out. Works for preDelete
        /// and inPlaceUpdate, through the readiness gate KruisePodReady. Default false.
        pub mark_pod_not_ready: bool,
    }

    /// Settings for updates of running Pods. A StatefulSet reads the three of the image download from
    /// annotations instead.
    pub struct InPlaceUpdateStrategy {
        /// Seconds between marking the Pod not ready and changing its containers, so that traffic can drain.
        /// Default 0: change at once.
        pub grace_period_seconds: Option<i32>,
        /// Start to pull the new image on the other nodes only when this many updated Pods are ready. Default
        /// 0: start at once.
        pub image_pre_download_min_updated_ready_pods: Option<i32>,
        /// On how many nodes at a time the new image is pulled ahead of the update. A whole number, no
        /// percentage. Default 1.
        pub image_pre_download_parallelism: Option<IntOrString>,
        /// Seconds that one attempt to pull the new image ahead of the update may take. Default 300.
        pub image_pre_download_timeout_seconds: Option<i32>,
    }

    /// A finding about an object.
    pub struct Condition {
        /// When the status of this condition last changed.
        pub last_transition_time: Option<Time>,
        /// Text for people with the details of the last change.
        pub message: String,
        /// One word in CamelCase, made for programs, that says why the condition has this status.
        pub reason: String,
        /// Whether the finding holds. True, False or Unknown.
        required pub status: ConditionStatus,
        /// The name of the finding, which each kind lists in its schema.
        #[serde(rename = "type")]
        required pub kind: String,
    }

    /// `metav1.Condition`, of which all but the generation must be written.
    pub struct MetaCondition {
        /// When the status of this condition last changed.
        required pub last_transition_time: Time,
        /// Text for people with the details of the last change.
        required pub message: String,
        /// The metadata.generation that the condition was computed from. A lower number than the current one
        /// means that the condition is out of date.
        pub observed_generation: Option<i64>,
        /// One word in CamelCase, made for programs, that says why the condition has this status.
        required pub reason: String,
        /// Whether the finding holds. True, False or Unknown.
        required pub status: ConditionStatus,
        /// The name of the finding, which each kind lists in its schema.
        #[serde(rename = "type")]
        required pub kind: String,
    }

    /// A finding about a job.
    pub struct JobCondition {
        /// When this condition was last checked.
        pub last_probe_time: Option<Time>,
        /// When the status of this condition last changed.
        pub last_transition_time: Option<Time>,
        /// Text for people with the details of the last change.
        pub message: String,
        /// One word in CamelCase, made for programs, that says why the condition has this status.
        pub reason: String,
        /// Whether the finding holds. True, False or Unknown.
        required pub status: ConditionStatus,
        /// The name of the finding, which each kind lists in its schema.
        #[serde(rename = "type")]
        required pub kind: String,
    }

    /// A reference to a job of any kind.
    pub struct ObjectReference {
        /// The API group and version of the job.
        pub api_version: String,
        /// A part within the job. Not used here.
        pub field_path: String,
        /// The kind of the job: Job, BroadcastJob, ImageListPullJob or ImagePullJob.
        pub kind: String,
        /// The name of the job.
        pub name: String,
        /// The namespace of the job.
        pub namespace: String,
        /// The resource version of the job when it was listed here.
        pub resource_version: String,
        /// The UID of the job.
        pub uid: String,
    }

    /// The workload that an object is about, in the same namespace.
    pub struct TargetReference {
        /// The API group and version of the workload, for example apps/v1 or apps.kruise.io/v1beta1.
        required pub api_version: String,
        /// The kind of the workload, for example Deployment or CloneSet.
        required pub kind: String,
        /// The name of the workload, in the same namespace.
        required pub name: String,
    }

    /// When a job is over, and what happens to it then.
    pub struct CompletionPolicy {
        /// Seconds from the start until what is not finished fails. Only with type Always. Unset means no
        /// limit.
        pub active_deadline_seconds: Option<i64>,
        /// Seconds after completion until the job is deleted. Only with type Always. Unset means never.
        pub ttl_seconds_after_finished: Option<i32>,
        /// Always ends the job once all its work is done. Never keeps it, for nodes that join later. Default
        /// Always.
        #[serde(rename = "type")]
        pub kind: Option<CompletionPolicyType>,
    }

    /// How often and how long a pull is tried on each node.
    pub struct PullPolicy {
        /// How many times a failed pull is tried again on a node, with growing pauses. Default 3.
        pub backoff_limit: Option<i32>,
        /// Seconds that one attempt may take. Default 600.
        pub timeout_seconds: Option<i32>,
    }

    /// The nodes to pull onto, by names or by labels but not both.
    pub struct ImagePullJobNodeSelector {
        /// Conditions on labels that must all hold, in addition to matchLabels.
        pub match_expressions: Vec<LabelSelectorRequirement>,
        /// Labels that must all be present with exactly these values. Every entry is one more condition.
        pub match_labels: BTreeMap<String, String>,
        /// Names of the nodes to pull onto, each once.
        pub names: Vec<String>,
    }

    /// Metadata handed to the container runtime with the pull request.
    pub struct SandboxConfig {
        /// Annotations of the sandbox that the pull request is made for.
        pub annotations: BTreeMap<String, String>,
        /// Labels of the sandbox that the pull request is made for.
        pub labels: BTreeMap<String, String>,
    }

    /// A workload or job to create, as text, so that nothing of it is lost.
    pub struct WorkloadTemplate {
        /// Labels and annotations of what is created. Other metadata is ignored.
        pub metadata: Option<Raw>,
        /// The specification of what is created.
        pub spec: Option<Raw>,
    }
}

/// Whether the finding of a condition holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known.
    #[default]
    Unknown,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// How Pods of an older revision come to the newest one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum UpdateStrategyType {
    /// They are updated step by step.
    #[default]
    #[serde(alias = "")]
    RollingUpdate,
    /// They wait until somebody deletes them.
    OnDelete,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// How one Pod is updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum PodUpdatePolicy {
    /// Delete it and create a new one.
    #[default]
    #[serde(alias = "")]
    ReCreate,
    /// Change the running Pod where that is possible, and recreate it otherwise.
    InPlaceIfPossible,
    /// Change the running Pod; a change that needs a new Pod is refused.
    InPlaceOnly,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// Whether a job ever ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum CompletionPolicyType {
    /// It ends when all its work is done.
    #[default]
    #[serde(alias = "")]
    Always,
    /// It continues, for nodes that join later.
    Never,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// What happens to Pods that find no room in their subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ScheduleStrategyType {
    /// They wait.
    #[default]
    #[serde(alias = "")]
    Fixed,
    /// They move to later subsets.
    Adaptive,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
