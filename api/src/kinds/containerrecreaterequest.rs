//! Restarts chosen containers of one running Pod, without deleting the Pod. The object is a one-time
//! request: make a new one for the next restart.

use serde::{Deserialize, Serialize};

use super::shared::MetaCondition;
use super::{Object, Time, is_default, null_is_default};
use crate::Raw;

/// Kind of a ContainerRecreateRequest.
pub const KIND: &str = "ContainerRecreateRequest";
/// Plural of a ContainerRecreateRequest in request paths.
pub const PLURAL: &str = "containerrecreaterequests";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A ContainerRecreateRequest.
pub type ContainerRecreateRequest = Object<Spec, Status>;

/// `spec`: the containers to restart, and how. Not meant to be changed after creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Seconds after its creation until a request that is not finished is given up. At least 3. Unset
    /// means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// The containers to restart, in the order in which they are worked on.
    #[serde(deserialize_with = "null_is_default")]
    pub containers: Vec<Container>,
    /// The name of the Pod, in the namespace of the request. The Pod must be bound to a node.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_name: String,
    /// How the restart is done.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub strategy: Strategy,
    /// Seconds after completion until the request is deleted. Unset means that it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// `spec.containers[]`: the containers to restart, in the order in which they are worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// The name of a container of the Pod. Each may be listed once.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The ports of the container, needed for a preStop request to a named port. Copied from the Pod by
    /// admission; must not be given.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub ports: Vec<Raw>,
    /// What the daemon runs before it stops the container. Copied from the Pod by admission; must not be
    /// given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<Raw>,
    /// The container as it was at the time of the request, to tell a new one from it. Copied from the Pod
    /// by admission; must not be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_context: Option<StatusContext>,
}

/// `spec.containers[].statusContext`: the container as it was at the time of the request, to tell a new
/// one from it. Copied from the Pod by admission; must not be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusContext {
    /// The full id of the container, with the name of the runtime in front.
    #[serde(rename = "containerID", deserialize_with = "null_is_default")]
    pub container_id: String,
    /// How often the container had restarted when the request was made.
    #[serde(deserialize_with = "null_is_default")]
    pub restart_count: i32,
}

/// `spec.strategy`: how the restart is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// What happens when a container can't be stopped. Fail ends the request, Ignore goes on with the
    /// next container. Default Fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// Stop a container even if it has restarted by itself since the request was made. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub force_recreate: bool,
    /// Seconds that a new container must have been up, and be ready, before its restart counts as a
    /// success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_started_seconds: Option<i32>,
    /// Stop the next container only after the one before is back and ready. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub ordered_recreate: bool,
    /// Seconds that a container gets between the request to stop and being killed. Defaults to the value
    /// of the Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Make the Pod not ready this many seconds before containers are stopped, so that traffic drains.
    /// The Pod needs the readiness gate KruisePodReady.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready_grace_period_seconds: Option<i64>,
}

/// `status`: how far the restart is. Written by the daemon on the node and by the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// When the request was finished, with or without success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Steps that were taken on the way.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub conditions: Vec<MetaCondition>,
    /// How far each container is, in the order of spec.containers.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub container_recreate_states: Vec<ContainerRecreateState>,
    /// The container statuses that the controller saw after the restart, for the daemon, which does not
    /// watch Pods.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub container_status_snapshot: Vec<ContainerStatusSnapshot>,
    /// Why the request ended as a whole, if not because all containers were worked on.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub message: String,
    /// Pending, Recreating or Completed. Completed does not mean success: look at
    /// containerRecreateStates.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: Phase,
}

/// `status.containerRecreateStates[]`: how far each container is, in the order of spec.containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRecreateState {
    /// Whether the old container was stopped because of this request.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub is_killed: bool,
    /// Why the container failed, or what is being waited for.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub message: String,
    /// The container that the state is about.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Pending, Recreating, Succeeded or Failed.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: Phase,
}

/// `status.containerStatusSnapshot[]`: the container statuses that the controller saw after the restart,
/// for the daemon, which does not watch Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatusSnapshot {
    /// The full id of the container that now runs.
    #[serde(
        rename = "containerID",
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub container_id: String,
    /// The container that the snapshot is about.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Whether the container was ready.
    #[serde(deserialize_with = "null_is_default")]
    pub ready: bool,
    /// How often the container has restarted.
    #[serde(deserialize_with = "null_is_default")]
    pub restart_count: i32,
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
