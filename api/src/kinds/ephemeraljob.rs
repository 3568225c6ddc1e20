//! Adds ephemeral containers to running Pods, for debugging many Pods at once, and follows them to
//! their end.

use super::shared::JobCondition;
use super::{Object, Time};
use crate::Raw;
use crate::meta::LabelSelector;

/// Kind of an EphemeralJob.
pub const KIND: &str = "EphemeralJob";
/// Plural of an EphemeralJob in request paths.
pub const PLURAL: &str = "ephemeraljobs";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";

/// An EphemeralJob.
pub type EphemeralJob = Object<Spec, Status>;

objects! {
    /// `spec`: the containers to add, the Pods to add them to, and the pace.
    pub struct Spec {
        /// Seconds after status.startTime until a job that is not finished fails. Unset means no limit.
        pub active_deadline_seconds: Option<i64>,
        /// In how many Pods the containers may be started at a time. Default 1.
        pub parallelism: Option<i32>,
        /// Add no containers to further Pods. Those already added go on. Default false.
        pub paused: bool,
        /// The largest number of Pods to take, the oldest first. Unset means all that match.
        pub replicas: Option<i32>,
        /// The Pods to add containers to, in the namespace of the job. An empty selector takes all.
        required pub selector: LabelSelector,
        /// What is added to each Pod.
        required pub template: Template,
        /// Seconds after completion until the job is deleted. Default 1800.
        pub ttl_seconds_after_finished: Option<i32>,
    }

    /// `spec.template`: what is added to each Pod.
    pub struct Template {
        /// The containers to add, in the form of a Pod's ephemeralContainers. Ports, resources, probes and
        /// lifecycle must not be given.
        pub ephemeral_containers: Option<Raw>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// When the job succeeded or failed.
        pub completion_time: Option<Time>,
        /// What happened to the job so far.
        pub conditions: Vec<JobCondition>,
        /// The number of Pods in which a container of the job failed.
        pub failed: Option<i32>,
        /// The number of Pods that the job works on.
        #[serde(rename = "match")]
        pub matched: Option<i32>,
        /// Waiting, Running, Paused, Succeeded, Failed, Error, or Unknown.
        pub phase: String,
        /// The number of Pods in which a container of the job is running.
        pub running: Option<i32>,
        /// When the controller first handled the job.
        pub start_time: Option<Time>,
        /// The number of Pods in which all containers of the job ended well.
        pub succeeded: Option<i32>,
        /// The number of Pods in which a container of the job has not started yet.
        pub waiting: Option<i32>,
    }
}
