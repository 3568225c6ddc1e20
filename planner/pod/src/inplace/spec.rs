//! A change of a Pod in place, as data: computed from two templates, stored in the grace annotation while it
//! waits (docs/behaviour/in-place-update.md#update-spec).

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::go_json::null_is_default;
use crate::observed::Resources;

/// What is to change in a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateSpec {
    /// The new revision's name; of a DaemonSet its short hash.
    pub revision: String,
    /// New images by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub container_images: BTreeMap<String, String>,
    /// New labels and annotations that the container's environment shows, by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub container_ref_metadata: BTreeMap<String, ReferencedMetadata>,
    /// New requests and limits by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub container_resources: BTreeMap<String, Resources>,
    /// The other changes of metadata; absent where no metadata changes at all.
    #[serde(rename = "metaDataPatch", skip_serializing_if = "Option::is_none")]
    pub metadata_patch: Option<MetadataPatch>,
    /// Some environment changes with the metadata, so containers are restarted by the node agent.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub update_env_from_metadata: bool,
    /// Seconds between marking the Pod and changing its containers; none where not positive.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_is_default")]
    pub grace_seconds: i32,
}

impl UpdateSpec {
    /// Nothing but requests and limits of containers changes, which need not restart them.
    pub fn changes_only_resources(&self) -> bool {
        !self.container_resources.is_empty()
            && self.container_images.is_empty()
            && !self.update_env_from_metadata
    }

    /// Nothing changes but labels and annotations that no container shows: the Pod serves on as it is.
    pub fn changes_only_metadata(&self) -> bool {
        self.container_images.is_empty()
            && self.container_resources.is_empty()
            && self.container_ref_metadata.is_empty()
            && !self.update_env_from_metadata
    }

    /// What the change is about, for people: `image of main, resources of main, metadata`.
    pub fn summary(&self) -> String {
        let images = self.container_images.keys().map(|name| format!("image of {name}"));
        let resources = self.container_resources.keys().map(|name| format!("resources of {name}"));
        let environment = self.container_ref_metadata.keys().map(|name| format!("environment of {name}"));
        let metadata = self.metadata_patch.iter().filter(|patch| **patch != MetadataPatch::default());
        let parts = images.chain(resources).chain(environment).chain(metadata.map(|_| "metadata".to_owned()));
        parts.collect::<Vec<_>>().join(", ")
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// Labels and annotations that the environment of one container shows. OpenKruise stores it as an
/// `ObjectMeta`, whose creation time Go always writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReferencedMetadata {
    /// Always `null`.
    pub creation_timestamp: (),
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<String, String>,
}

impl ReferencedMetadata {
    /// Both change the same label or the same annotation.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.labels.keys().any(|key| other.labels.contains_key(key))
            || self.annotations.keys().any(|key| other.annotations.contains_key(key))
    }
}

/// A strategic merge patch of `metadata`: what no container's environment shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataPatch {
    /// Labels to set, or to remove where there is no value.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, or to remove where there is no value.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Finalizers to add.
    pub finalizers: Vec<String>,
    /// Finalizers to remove.
    pub removed_finalizers: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct Patch {
    #[serde(
        default,
        skip_serializing_if = "PatchedMetadata::is_empty",
        deserialize_with = "null_is_default"
    )]
    metadata: PatchedMetadata,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct PatchedMetadata {
    #[serde(
        rename = "$deleteFromPrimitiveList/finalizers",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    removed_finalizers: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    annotations: BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    finalizers: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    labels: BTreeMap<String, Option<String>>,
}

impl PatchedMetadata {
    fn is_empty(&self) -> bool {
        self.removed_finalizers.is_empty()
            && self.annotations.is_empty()
            && self.finalizers.is_empty()
            && self.labels.is_empty()
    }
}

/// Written as Go writes bytes: base64 of the patch's JSON.
impl Serialize for MetadataPatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { labels, annotations, finalizers, removed_finalizers } = self.clone();
        let metadata = PatchedMetadata { removed_finalizers, annotations, finalizers, labels };
        let json = serde_json::to_vec(&Patch { metadata }).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&BASE64_STANDARD.encode(json))
    }
}

impl<'de> Deserialize<'de> for MetadataPatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let json = BASE64_STANDARD.decode(text).map_err(D::Error::custom)?;
        let Patch { metadata } = serde_json::from_slice(&json).map_err(D::Error::custom)?;
        let PatchedMetadata { removed_finalizers, annotations, finalizers, labels } = metadata;
        Ok(Self { labels, annotations, finalizers, removed_finalizers })
    }
}
