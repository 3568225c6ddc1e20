//! Objects that a workload owns beside its Pods.

use api::labels::CLONESET_INSTANCE_ID;
use serde::{Deserialize, Serialize};

use super::action::ChildKind;
use super::object_version::ObjectVersion;
use super::ordinal;
use pod::observed::{Pairs, PodCondition, PodMetadata, Resources};

/// A PersistentVolumeClaim, as much of it as is read here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Name, labels and owners.
    pub metadata: PodMetadata,
    /// What is asked for.
    pub spec: ClaimSpec,
    /// What there is.
    pub status: ClaimStatus,
}

/// `spec` of a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// The StorageClass; none where the default one is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<Box<str>>,
    /// How the volume can be mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_modes: Option<Box<[Box<str>]>>,
    /// A file system or a block device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<Box<str>>,
    /// The size that is asked for.
    pub resources: Resources,
}

/// `status` of a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimStatus {
    /// The size that there is.
    pub capacity: Pairs,
    /// What continues with it.
    pub conditions: Option<Box<[PodCondition]>>,
}

impl Claim {
    /// It has a volume: until then its size can't change.
    pub(crate) fn has_volume(&self) -> bool {
        !self.status.capacity.is_empty()
    }

    /// Reads a claim from its JSON text.
    ///
    /// # Errors
    /// A text that is no claim.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// Its name without the ordinal at the end: the name of its template, and that of its StatefulSet. None where
    /// it ends with no ordinal.
    pub fn stem(&self) -> Option<&str> {
        ordinal::split(&self.metadata.name).map(|(stem, _)| stem)
    }

    /// The condition of this type, if it is true.
    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.find(|condition| *condition.kind == *kind && &*condition.status == "True")
    }

    /// The id that it shares with its Pod.
    pub fn instance_id(&self) -> Option<&str> {
        self.metadata.labels.get(CLONESET_INSTANCE_ID)
    }
}

/// A child object that is neither Pod, claim nor revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its kind.
    pub kind: ChildKind,
    /// The object.
    pub observed: ObjectVersion,
}
