//! Pulls a list of images onto nodes ahead of their use. Makes one ImagePullJob for each image.

use serde::{Deserialize, Serialize};

use super::shared::{CompletionPolicy, ImagePullJobNodeSelector, IntOrString, PullPolicy, SandboxConfig};
use super::{Object, Time, is_default, null_is_default};
use crate::meta::LabelSelector;

/// Kind of an ImageListPullJob.
pub const KIND: &str = "ImageListPullJob";
/// Plural of an ImageListPullJob in request paths.
pub const PLURAL: &str = "imagelistpulljobs";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// An ImageListPullJob.
pub type ImageListPullJob = Object<Spec, Status>;

/// `spec`: the images to pull, the nodes to pull them onto, and the pace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// When the job is over, and what happens to it then. May be empty.
    #[serde(deserialize_with = "null_is_default")]
    pub completion_policy: CompletionPolicy,
    /// IfNotPresent skips the pull when the node already has the image. Always asks the registry anyway,
    /// which matters for tags that move. Default IfNotPresent.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub image_pull_policy: String,
    /// The images to pull, by tag or digest. At most 255, each once.
    #[serde(deserialize_with = "null_is_default")]
    pub images: Vec<String>,
    /// On how many nodes at a time each image is pulled. A whole number; 0 stops the job from starting
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
    /// Names of Secrets with registry credentials, in the namespace of the job.
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
    /// The number of images whose job is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// The number of images whose job is finished, with or without success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<i32>,
    /// When all images were done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The number of images to pull.
    #[serde(deserialize_with = "null_is_default")]
    pub desired: i32,
    /// The images that did not reach every node.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub failed_image_statuses: Vec<FailedImageStatus>,
    /// When the controller first handled the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The number of images that are on every chosen node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
}

/// `status.failedImageStatuses[]`: the images that did not reach every node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailedImageStatus {
    /// The name of the ImagePullJob, whose status lists the nodes.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub image_pull_job: String,
    /// What is known about the failure.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub message: String,
    /// The image that failed.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub name: String,
}
