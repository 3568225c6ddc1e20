//! Restarts chosen containers of one running Pod, without deleting the Pod. The object is a one-time
//! request: make a new one for the next restart.

use serde::{Deserialize, Serialize};

use super::shared::MetaCondition;
use super::{Object, Time};
use crate::Raw;

/// Kind of a ContainerRecreateRequest.
pub const KIND: &str = "ContainerRecreateRequest";
/// Plural of a ContainerRecreateRequest in request paths.
pub const PLURAL: &str = "containerrecreaterequests";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A ContainerRecreateRequest.
pub type ContainerRecreateRequest = Object<Spec, Status>;

objects! {
    /// `spec`: the containers to restart, and how. Not meant to be changed after creation.
    pub struct Spec {
        /// Seconds after its creation until a request that is not finished is given up. At least 3. Unset
        /// means no limit.
        pub active_deadline_seconds: Option<i64>,
        /// The containers to restart, in the order in which they are worked on.
        required pub containers: Vec<Container>,
        /// The name of the Pod, in the namespace of the request. The Pod must be bound to a node.
        required pub pod_name: String,
        /// How the restart is done.
        pub strategy: Strategy,
        /// Seconds after completion until the request is deleted. Unset means that it stays.
        pub ttl_seconds_after_finished: Option<i32>,
    }

    /// `spec.containers[]`: the containers to restart, in the order in which they are worked on.
    pub struct Container {
        /// The name of a container of the Pod. Each may be listed once.
        required pub name: String,
        /// The ports of the container, needed for a preStop request to a named port. Copied from the Pod by
        /// admission; must not be given.
        pub ports: Vec<Raw>,
        /// What the daemon runs before it stops the container. Copied from the Pod by admission; must not be
        /// given.
        pub pre_stop: Option<Raw>,
        /// The container as it was at the time of the request, to tell a new one from it. Copied from the Pod
        /// by admission; must not be given.
        pub status_context: Option<StatusContext>,
    }

    /// `spec.containers[].statusContext`: the container as it was at the time of the request, to tell a new
    /// one from it. Copied from the Pod by admission; must not be given.
    pub struct StatusContext {
        /// The full id of the container, with the name of the runtime in front.
        #[serde(rename = "containerID")]
        required pub container_id: String,
        /// How often the container had restarted when the request was made.
        required pub restart_count: i32,
    }

    /// `spec.strategy`: how the restart is done.
    pub struct Strategy {
        /// What happens when a container can't be stopped. Fail ends the request, Ignore goes on with the
        /// next container. Default Fail.
        pub failure_policy: Option<FailurePolicy>,
        /// Stop a container even if it has restarted by itself since the request was made. Default false.
        pub force_recreate: bool,
        /// Seconds that a new container must have been up, and be ready, before its restart counts as a
        /// success.
        pub min_started_seconds: Option<i32>,
        /// Stop the next container only after the one before is back and ready. Default false.
        pub ordered_recreate: bool,
        /// Seconds that a container gets between the request to stop and being killed. Defaults to the value
        /// of the Pod.
        pub termination_grace_period_seconds: Option<i64>,
        /// Make the Pod not ready this many seconds before containers are stopped, so that traffic drains.
        /// The Pod needs the readiness gate KruisePodReady.
        pub unready_grace_period_seconds: Option<i64>,
    }

    /// `status`: how far the restart is. Written by the daemon on the node and by the controller.
    pub struct Status {
        /// When the request was finished, with or without success.
        pub completion_time: Option<Time>,
        /// Steps that were taken on the way.
        pub conditions: Vec<MetaCondition>,
        /// How far each container is, in the order of spec.containers.
        pub container_recreate_states: Vec<ContainerRecreateState>,
        /// The container statuses that the controller saw after the restart, for the daemon, which does not
        /// watch Pods.
        pub container_status_snapshot: Vec<ContainerStatusSnapshot>,
        /// Why the request ended as a whole, if not because all containers were worked on.
        pub message: String,
        /// Pending, Recreating or Completed. Completed does not mean success: look at
        /// containerRecreateStates.
        required pub phase: Phase,
    }

    /// `status.containerRecreateStates[]`: how far each container is, in the order of spec.containers.
    pub struct ContainerRecreateState {
        /// Whether the old container was stopped because of this request.
        pub is_killed: bool,
        /// Why the container failed, or what is being waited for.
        pub message: String,
        /// The container that the state is about.
        required pub name: String,
        /// Pending, Recreating, Succeeded or Failed.
        required pub phase: Phase,
    }

    /// `status.containerStatusSnapshot[]`: the container statuses that the controller saw after the restart,
    /// for the daemon, which does not watch Pods.
    pub struct ContainerStatusSnapshot {
        /// The full id of the container that now runs.
        #[serde(rename = "containerID")]
        pub container_id: String,
        /// The container that the snapshot is about.
        required pub name: String,
        /// Whether the container was ready.
        required pub ready: bool,
        /// How often the container has restarted.
        required pub restart_count: i32,
    }
}

/// What happens when a container can't be stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FailurePolicy {
    /// End the request.
    #[default]
    #[serde(alias = "")]
    Fail,
    /// Go on with the next container.
    Ignore,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// How far a request or one of its containers is. A request is never `Succeeded` or `Failed` as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Phase {
    /// The controller has not handled the request yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// Nothing was done yet.
    Pending,
    /// The restart is going on.
    Recreating,
    /// The container is back.
    Succeeded,
    /// The container did not come back.
    Failed,
    /// The request is over, with or without success.
    Completed,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
