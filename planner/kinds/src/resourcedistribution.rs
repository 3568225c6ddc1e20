//! ResourceDistribution: copies of one Secret or ConfigMap in many namespaces
//! (docs/behaviour/resourcedistribution.md).
//!
//! ```text
//!   targets     which namespaces: spec.targets, and what each namespace is to a ResourceDistribution
//!   resource    spec.resource: the copy to create, and the patch that makes an existing copy equal to it
//!   copy        what is kept of a copy: whose it is
//!   status      what came of it in each namespace, and the patch of the status
//!   explanation what is right and wrong in each namespace
//!   validation  what a ResourceDistribution may say
//! ```

use std::collections::BTreeMap;

use api::kinds::resourcedistribution::{ResourceDistribution, Status};
use serde::{Deserialize, Deserializer};

use values::selector::SelectorError;

pub mod copy;
pub mod explanation;
pub mod resource;
pub mod status;
pub mod targets;
pub mod validation;

use resource::{Resource, ResourceError};
use targets::{Place, TargetNamespace, Targets};

/// A ResourceDistribution as its controller needs it.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// The name.
    pub name: String,
    /// The identity, which a later ResourceDistribution of this name does not have.
    pub uid: String,
    /// The version of this state.
    pub resource_version: String,
    /// Grows with every change of the spec.
    pub generation: Option<i64>,
    /// Its deletion was asked for.
    pub deleting: bool,
    /// What to distribute.
    pub resource: Result<Resource, ResourceError>,
    /// Where to.
    pub targets: Result<Targets, SelectorError>,
    /// The status as it is stored.
    pub status: Status,
}

impl Distribution {
    /// Reads a ResourceDistribution of v1beta1.
    ///
    /// # Errors
    /// The text is none.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let ResourceDistribution { metadata, spec, status } = serde_json::from_str(json)?;
        Ok(Self {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            resource: Resource::read(spec.resource.as_ref()),
            targets: Targets::compile(&spec.targets),
            status,
        })
    }

    /// The namespaces that are to have a copy, by name, of those that exist and those that are listed
    /// (docs/behaviour/resourcedistribution.md#target-namespaces).
    pub fn matched<'a>(
        targets: &'a Targets,
        namespaces: impl Iterator<Item = &'a TargetNamespace>,
    ) -> BTreeMap<&'a str, Place> {
        let listed = targets.listed().map(|name| (name, targets.place(name, None)));
        let mut places: BTreeMap<&str, Place> = listed.collect();
        for namespace in namespaces {
            places.insert(&namespace.name, targets.place(&namespace.name, Some(namespace)));
        }
        places.retain(|_, place| place.is_target());
        places
    }
}

/// A map of texts as Go's decoder reads it: null means the empty text.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map: Option<BTreeMap<String, Option<String>>> = Option::deserialize(deserializer)?;
    Ok(map.into_iter().flatten().map(|(key, text)| (key, text.unwrap_or_default())).collect())
}
