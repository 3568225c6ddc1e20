//! Objects that a workload owns beside its Pods.

use api::labels::CLONESET_INSTANCE_ID;
use serde::Deserialize;

use super::action::ChildKind;
use super::seen::Seen;
use crate::pod::observed::PodMetadata;

/// A PersistentVolumeClaim, as much of it as is read here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Name, labels and owners.
    pub metadata: PodMetadata,
}

impl Claim {
    /// Reads a claim from its JSON text.
    ///
    /// # Errors
    /// A text that is no claim.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
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
    pub seen: Seen,
}
