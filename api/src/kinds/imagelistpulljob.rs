//! Pulls a list of images onto nodes ahead of their use. Makes one ImagePullJob for each image.

use super::shared::{CompletionPolicy, ImagePullJobNodeSelector, IntOrString, PullPolicy, SandboxConfig};
use super::{Object, Time};
use crate::meta::LabelSelector;

/// Kind of an ImageListPullJob.
pub const KIND: &str = "ImageListPullJob";
/// Plural of an ImageListPullJob in request paths.
pub const PLURAL: &str = "imagelistpulljobs";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// An ImageListPullJob.
pub type ImageListPullJob = Object<Spec, Status>;

objects! {
    /// `spec`: the images to pull, the nodes to pull them onto, and the pace.
    pub struct Spec {
        /// When the job is over, and what happens to it then. May be empty.
        required pub completion_policy: CompletionPolicy,
        /// IfNotPresent skips the pull when the node already has the image. Always asks the registry anyway,
        /// which matters for tags that move. Default IfNotPresent.
        pub image_pull_policy: String,
        /// The images to pull, by tag or digest. At most 255, each once.
        required pub images: Vec<String>,
        /// On how many nodes at a time each image is pulled. A whole number; 0 stops the job from starting
        /// more. Default 1.
        pub parallelism: Option<IntOrString>,
        /// Pull onto the nodes where Pods with these labels run, in the namespace of the job. Not together
        /// with selector.
        pub pod_selector: Option<LabelSelector>,
        /// How often and how long the pull is tried on each node.
        pub pull_policy: PullPolicy,
        /// Names of Secrets with registry credentials, in the namespace of the job.
        pub pull_secrets: Vec<String>,
        /// Metadata handed to the container runtime with the pull request, for runtimes that look at it.
        pub sandbox_config: SandboxConfig,
        /// The nodes to pull onto, by names or by labels but not both. Unset means all nodes.
        pub selector: Option<ImagePullJobNodeSelector>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The number of images whose job is not finished.
        pub active: Option<i32>,
        /// The number of images whose job is finished, with or without success.
        pub completed: Option<i32>,
        /// When all images were done.
        pub completion_time: Option<Time>,
        /// The number of images to pull.
        required pub desired: i32,
        /// The images that did not reach every node.
        pub failed_image_statuses: Vec<FailedImageStatus>,
        /// When the controller first handled the job.
        pub start_time: Option<Time>,
        /// The number of images that are on every chosen node.
        pub succeeded: Option<i32>,
    }

    /// `status.failedImageStatuses[]`: the images that did not reach every node.
    pub struct FailedImageStatus {
        /// The name of the ImagePullJob, whose status lists the nodes.
        pub image_pull_job: String,
        /// What is known about the failure.
        pub message: String,
        /// The image that failed.
        pub name: String,
    }
}
