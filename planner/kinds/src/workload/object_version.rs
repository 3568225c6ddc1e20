//! An object in the state that a plan was made from.

use api::kinds::ObjectMeta;

use pod::observed::{ObservedPod, PodMetadata};

/// An object and the state of it that was observed: the precondition of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// The version that was observed.
    pub resource_version: String,
}

impl ObjectVersion {
    /// The Pod as it is in the snapshot.
    pub fn pod(pod: &ObservedPod) -> Self {
        Self::of(&pod.metadata)
    }

    /// The Pod or claim with this metadata.
    pub fn of(metadata: &PodMetadata) -> Self {
        Self {
            name: metadata.name.to_string(),
            uid: metadata.uid.to_string(),
            resource_version: metadata.resource_version.to_string(),
        }
    }

    /// Any other object with this metadata.
    pub fn object(metadata: &ObjectMeta) -> Self {
        Self {
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}
