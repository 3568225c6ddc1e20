//! Runs one Pod to its end on every node that fits, like a DaemonSet for work that finishes.

use serde::{Deserialize, Serialize};

use super::shared::{CompletionPolicy, IntOrString, JobCondition};
use super::{Object, Time};
use crate::Raw;

/// Kind of a BroadcastJob.
pub const KIND: &str = "BroadcastJob";
/// Plural of a BroadcastJob in request paths.
pub const PLURAL: &str = "broadcastjobs";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A BroadcastJob.
pub type BroadcastJob = Object<Spec, Status>;

objects! {
    /// `spec`: the Pod to run on each node, and when the job is over.
    pub struct Spec {
        /// When the job is over, and what happens to it then.
        pub completion_policy: CompletionPolicy,
        /// What happens when a Pod fails.
        pub failure_policy: FailurePolicy,
        /// How many Pods may run at once: a number, or a percentage of the nodes that need one, rounded up.
        /// Default 2147483647, which is no limit.
        pub parallelism: Option<IntOrString>,
        /// Start no new Pods and decide nothing about success or failure. Default false.
        pub paused: bool,
        /// The Pod to run on each node, with metadata and spec. restartPolicy must be Never or OnFailure. The
        /// labels broadcastjob-name and broadcastjob-controller-uid must not be given.
        pub template: Option<Raw>,
    }

    /// `spec.failurePolicy`: what happens when a Pod fails.
    pub struct FailurePolicy {
        /// With restartPolicy OnFailure, a Pod counts as failed when its containers have restarted more often
        /// than this. Default 0.
        pub restart_limit: Option<i32>,
        /// FailFast fails the job and deletes the Pods that still run. Continue lets the other nodes run.
        /// Pause starts no new Pods until no failed one is left. Default FailFast.
        #[serde(rename = "type")]
        pub kind: Option<FailurePolicyType>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The number of Pods that have not ended yet.
        pub active: Option<i32>,
        /// When the job became Complete or Failed.
        pub completion_time: Option<Time>,
        /// What the job came to: Complete or Failed.
        pub conditions: Vec<JobCondition>,
        /// The number of nodes that should run a Pod of this job.
        pub desired: Option<i32>,
        /// The number of Pods that failed.
        pub failed: Option<i32>,
        /// running, paused, completed or failed.
        pub phase: String,
        /// When the controller first handled the job.
        pub start_time: Option<Time>,
        /// The number of Pods that ended well.
        pub succeeded: Option<i32>,
    }
}

/// What happens when a Pod fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FailurePolicyType {
    /// Fail the job and delete the Pods that still run.
    #[default]
    #[serde(alias = "")]
    FailFast,
    /// Go on with the other nodes.
    Continue,
    /// Start no new Pods until no failed one is left.
    Pause,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
