//! The images that one node should pull, and how far each is. Named like the node. The controller makes
//! it, jobs write its spec, and the daemon on the node writes its status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::shared::{ObjectReference, SandboxConfig};
use super::{Object, Time, is_default, null_is_default};

/// Kind of a NodeImage.
pub const KIND: &str = "NodeImage";
/// Plural of a NodeImage in request paths.
pub const PLURAL: &str = "nodeimages";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A NodeImage.
pub type NodeImage = Object<Spec, Status>;

/// `spec`: what the node should pull. Written by jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The images to pull, by image name without tag. At most 256.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub images: BTreeMap<String, Image>,
}

/// `spec.images{}`: the images to pull, by image name without tag. At most 256.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Secrets with registry credentials, tried for this image.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub pull_secrets: Vec<PullSecret>,
    /// Metadata handed to the container runtime with the pull request, for runtimes that look at it.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub sandbox_config: SandboxConfig,
    /// The tags of this image to pull, sorted.
    #[serde(deserialize_with = "null_is_default")]
    pub tags: Vec<Tag>,
}

/// `spec.images{}.pullSecrets[]`: secrets with registry credentials, tried for this image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullSecret {
    /// "batch" marks a Secret that the controller copied for the daemon. Empty means a Secret that is
    /// read where it is.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub mode: String,
    /// The name of the Secret.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub name: String,
    /// The namespace of the Secret.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub namespace: String,
}

/// `spec.images{}.tags[]`: the tags of this image to pull, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tag {
    /// When the tag was asked for. Admission fills it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// IfNotPresent skips the pull when the node already has the image. Always asks the registry anyway,
    /// and so does an empty value.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub image_pull_policy: String,
    /// The jobs that want this tag. They get the event if the pull fails.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub owner_references: Vec<ObjectReference>,
    /// How often and how long the pull is tried.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub pull_policy: TagPullPolicy,
    /// The tag, or the digest, to pull.
    #[serde(deserialize_with = "null_is_default")]
    pub tag: String,
    /// The round of the task. A higher number makes the daemon pull again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// `spec.images{}.tags[].pullPolicy`: how often and how long the pull is tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TagPullPolicy {
    /// Seconds from the start of the pull until it is given up, all attempts together. Unset means no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// How many times a failed pull is tried again on a node, with growing pauses. Default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// Seconds that one attempt may take. Default 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Seconds after completion until the tag is taken off this list. Must be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// `status`: how far the pulls are. Written by the daemon on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The number of tags to pull.
    #[serde(deserialize_with = "null_is_default")]
    pub desired: i32,
    /// The number of tags whose pull failed for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// The outcome of the first pass over all images. Reserved; not written at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_sync_status: Option<FirstSyncStatus>,
    /// How far each image is, by image name without tag.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub image_statuses: BTreeMap<String, ImageStatus>,
    /// The number of tags that are being pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulling: Option<i32>,
    /// The number of tags that are on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// The number of tags that wait for their turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<i32>,
}

/// `status.firstSyncStatus`: the outcome of the first pass over all images. Reserved; not written at
/// present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirstSyncStatus {
    /// Details of the first pass.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub message: String,
    /// Succeeded or Failed.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub status: String,
    /// When the first pass ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_at: Option<Time>,
}

/// `status.imageStatuses{}`: how far each image is, by image name without tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageStatus {
    /// How far each tag of the image is, sorted by tag.
    #[serde(deserialize_with = "null_is_default")]
    pub tags: Vec<TagStatus>,
}

/// `status.imageStatuses{}.tags[]`: how far each tag of the image is, sorted by tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TagStatus {
    /// When the pull succeeded or failed for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The image name with the digest that was pulled, as the container runtime reports it.
    #[serde(
        rename = "imageID",
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub image_id: String,
    /// The last error of a failed pull.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub message: String,
    /// Waiting, Pulling, Succeeded or Failed.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: String,
    /// How much has been pulled, in percent from 0 to 100, where the runtime tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<i32>,
    /// When the pull began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The tag, or the digest, that the status is about.
    #[serde(deserialize_with = "null_is_default")]
    pub tag: String,
    /// The round of the task that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}
