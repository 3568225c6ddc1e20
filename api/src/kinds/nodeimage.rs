//! The images that one node should pull, and how far each is. Named like the node. The controller makes
//! it, jobs write its spec, and the daemon on the node writes its status.

use std::collections::BTreeMap;

use super::shared::{ObjectReference, SandboxConfig};
use super::{Object, Time};

/// Kind of a NodeImage.
pub const KIND: &str = "NodeImage";
/// Plural of a NodeImage in request paths.
pub const PLURAL: &str = "nodeimages";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A NodeImage.
pub type NodeImage = Object<Spec, Status>;

objects! {
    /// `spec`: what the node should pull. Written by jobs.
    pub struct Spec {
        /// The images to pull, by image name without tag. At most 256.
        pub images: BTreeMap<String, Image>,
    }

    /// `spec.images{}`: the images to pull, by image name without tag. At most 256.
    pub struct Image {
        /// Secrets with registry credentials, tried for this image.
        pub pull_secrets: Vec<PullSecret>,
        /// Metadata handed to the container runtime with the pull request, for runtimes that look at it.
        pub sandbox_config: SandboxConfig,
        /// The tags of this image to pull, sorted.
        required pub tags: Vec<Tag>,
    }

    /// `spec.images{}.pullSecrets[]`: secrets with registry credentials, tried for this image.
    pub struct PullSecret {
        /// "batch" marks a Secret that the controller copied for the daemon. Empty means a Secret that is
        /// read where it is.
        pub mode: String,
        /// The name of the Secret.
        pub name: String,
        /// The namespace of the Secret.
        pub namespace: String,
    }

    /// `spec.images{}.tags[]`: the tags of this image to pull, sorted.
    pub struct Tag {
        /// When the tag was asked for. Admission fills it in.
        pub created_at: Option<Time>,
        /// IfNotPresent skips the pull when the node already has the image. Always asks the registry anyway,
        /// and so does an empty value.
        pub image_pull_policy: String,
        /// The jobs that want this tag. They get the event if the pull fails.
        pub owner_references: Vec<ObjectReference>,
        /// How often and how long the pull is tried.
        pub pull_policy: TagPullPolicy,
        /// The tag, or the digest, to pull.
        required pub tag: String,
        /// The round of the task. A higher number makes the daemon pull again.
        pub version: Option<i64>,
    }

    /// `spec.images{}.tags[].pullPolicy`: how often and how long the pull is tried.
    pub struct TagPullPolicy {
        /// Seconds from the start of the pull until it is given up, all attempts together. Unset means no
        /// limit.
        pub active_deadline_seconds: Option<i64>,
        /// How many times a failed pull is tried again on a node, with growing pauses. Default 3.
        pub backoff_limit: Option<i32>,
        /// Seconds that one attempt may take. Default 600.
        pub timeout_seconds: Option<i32>,
        /// Seconds after completion until the tag is taken off this list. Must be given.
        pub ttl_seconds_after_finished: Option<i32>,
    }

    /// `status`: how far the pulls are. Written by the daemon on the node.
    pub struct Status {
        /// The number of tags to pull.
        required pub desired: i32,
        /// The number of tags whose pull failed for good.
        pub failed: Option<i32>,
        /// The outcome of the first pass over all images. Reserved; not written at present.
        pub first_sync_status: Option<FirstSyncStatus>,
        /// How far each image is, by image name without tag.
        pub image_statuses: BTreeMap<String, ImageStatus>,
        /// The number of tags that are being pulled.
        pub pulling: Option<i32>,
        /// The number of tags that are on the node.
        pub succeeded: Option<i32>,
        /// The number of tags that wait for their turn.
        pub waiting: Option<i32>,
    }

    /// `status.firstSyncStatus`: the outcome of the first pass over all images. Reserved; not written at
    /// present.
    pub struct FirstSyncStatus {
        /// Details of the first pass.
        pub message: String,
        /// Succeeded or Failed.
        pub status: String,
        /// When the first pass ended.
        pub sync_at: Option<Time>,
    }

    /// `status.imageStatuses{}`: how far each image is, by image name without tag.
    pub struct ImageStatus {
        /// How far each tag of the image is, sorted by tag.
        required pub tags: Vec<TagStatus>,
    }

    /// `status.imageStatuses{}.tags[]`: how far each tag of the image is, sorted by tag.
    pub struct TagStatus {
        /// When the pull succeeded or failed for good.
        pub completion_time: Option<Time>,
        /// The image name with the digest that was pulled, as the container runtime reports it.
        #[serde(rename = "imageID")]
        pub image_id: String,
        /// The last error of a failed pull.
        pub message: String,
        /// Waiting, Pulling, Succeeded or Failed.
        required pub phase: String,
        /// How much has been pulled, in percent from 0 to 100, where the runtime tells.
        pub progress: Option<i32>,
        /// When the pull began.
        pub start_time: Option<Time>,
        /// The tag, or the digest, that the status is about.
        required pub tag: String,
        /// The round of the task that this status answers.
        pub version: Option<i64>,
    }
}
