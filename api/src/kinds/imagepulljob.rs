//! Pulls one image onto nodes ahead of its use.

use super::shared::{CompletionPolicy, ImagePullJobNodeSelector, IntOrString, PullPolicy, SandboxConfig};
use super::{Object, Time};
use crate::meta::LabelSelector;

/// Kind of an ImagePullJob.
pub const KIND: &str = "ImagePullJob";
/// Plural of an ImagePullJob in request paths.
pub const PLURAL: &str = "imagepulljobs";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// An ImagePullJob.
pub type ImagePullJob = Object<Spec, Status>;

objects! {
    /// `spec`: the image to pull, the nodes to pull it onto, and the pace.
    pub struct Spec {
        /// When the job is over, and what happens to it then. May be empty.
        required pub completion_policy: CompletionPolicy,
        /// The image to pull, by tag or digest.
        required pub image: String,
        /// IfNotPresent skips the pull when the node already has the image. Always asks the registry anyway,
        /// which matters for tags that move. Default IfNotPresent.
        pub image_pull_policy: String,
        /// On how many nodes at a time the image is pulled. A whole number; 0 stops the job from starting
        /// more. Default 1.
        pub parallelism: Option<IntOrString>,
        /// Pull onto the nodes where Pods with these labels run, in the namespace of the job. Not together
        /// with selector.
        pub pod_selector: Option<LabelSelector>,
        /// How often and how long the pull is tried on each node.
        pub pull_policy: PullPolicy,
        /// Names of Secrets with registry credentials, in the namespace of the job. Cannot be changed.
        pub pull_secrets: Vec<String>,
        /// Metadata handed to the container runtime with the pull request, for runtimes that look at it.
        pub sandbox_config: SandboxConfig,
        /// The nodes to pull onto, by names or by labels but not both. Unset means all nodes.
        pub selector: Option<ImagePullJobNodeSelector>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The number of nodes that are pulling or waiting to.
        pub active: Option<i32>,
        /// When every node was done, or the deadline passed.
        pub completion_time: Option<Time>,
        /// The number of nodes to pull onto.
        required pub desired: i32,
        /// The number of nodes on which the pull failed for good.
        pub failed: Option<i32>,
        /// The names of the nodes on which the pull failed, sorted.
        pub failed_nodes: Vec<String>,
        /// A summary for people, such as the progress in percent.
        pub message: String,
        /// When the controller first handled the job.
        pub start_time: Option<Time>,
        /// The number of nodes that have the image.
        pub succeeded: Option<i32>,
    }
}
