//! Pulls one image onto nodes ahead of its use.

use serde::{Deserialize, Serialize};

use super::shared::{CompletionPolicy, ImagePullJobNodeSelector, IntOrString, PullPolicy, SandboxConfig};
use super::{Object, Time, is_default, null_is_default};
use crate::meta::LabelSelector;

/// Kind of an ImagePullJob.
pub const KIND: &str = "ImagePullJob";
/// Plural of an ImagePullJob in request paths.
pub const PLURAL: &str = "imagepulljobs";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// An ImagePullJob.
pub type ImagePullJob = Object<Spec, Status>;

/// `spec`: the image to pull, the nodes to pull it onto, and the pace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// When the job is over, and what happens to it then. May be empty.
    #[serde(deserialize_with = "null_is_default")]
    pub completion_policy: CompletionPolicy,
    /// The image to pull, by tag or digest.
    #[serde(deserialize_with = "null_is_default")]
    pub image: String,
    /// IfNotPresent skips the pull when the node already has the image. Always asks the registry anyway,
    /// which matters for tags that move. Default IfNotPresent.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub image_pull_policy: String,
    /// On how many nodes at a time the image is pulled. A whole number; 0 stops the job from starting
    /// more. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<IntOrString>,
    /// Pull onto the nodes where Pods with these labels run, in the namespace of the job. Not together
    /// with selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// How often and how long the pull is tried on each node.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub pull_policy: PullPolicy,
    /// Names of Secrets with registry credentials, in the namespace of the job. Cannot be changed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub pull_secrets: Vec<String>,
    /// Metadata handed to the container runtime with the pull request, for runtimes that look at it.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub sandbox_config: SandboxConfig,
    /// The nodes to pull onto, by names or by labels but not both. Unset means all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<ImagePullJobNodeSelector>,
}

/// `status`: what the controller last observed. Written by the controller only, through the status
/// subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The number of nodes that are pulling or waiting to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// When every node was done, or the deadline passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The number of nodes to pull onto.
    #[serde(deserialize_with = "null_is_default")]
    pub desired: i32,
    /// The number of nodes on which the pull failed for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// The names of the nodes on which the pull failed, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub failed_nodes: Vec<String>,
    /// A summary for people, such as the progress in percent.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub message: String,
    /// When the controller first handled the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The number of nodes that have the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
}
