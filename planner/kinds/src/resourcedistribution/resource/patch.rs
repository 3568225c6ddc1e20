//! The patch that makes an existing copy equal to the resource
//! (docs/behaviour/resourcedistribution.md#updates-of-a-copy).

use api::annotations::DISTRIBUTED_METADATA;
use api::kinds::{ObjectMeta, resourcedistribution};
use serde::Deserialize;
use serde_json::{Map, Value, json, to_value};

use super::{Applied, Content, Metadata, Resource, changes, owner};
use crate::resourcedistribution::Distribution;

impl Resource {
    /// The strategic merge patch for a copy of `distribution`; `None` where nothing differs. It holds for just
    /// this state of the copy.
    ///
    /// # Errors
    /// The resource or the copy can't be read.
    pub fn patch(
        &self,
        distribution: &Distribution,
        copy: &str,
    ) -> Result<Option<String>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Found {
            metadata: ObjectMeta,
        }
        let Found { metadata: found } = serde_json::from_str(copy)?;
        let (labels, annotations) = self.wanted_metadata(distribution)?;
        let applied = found.annotations.get(DISTRIBUTED_METADATA);
        // What somebody else wrote there says nothing.
        let mut applied: Applied =
            applied.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        applied.annotations.insert(DISTRIBUTED_METADATA.to_owned());
        let labels = changes(&labels, &found.labels, applied.labels.iter());
        let annotations = changes(&annotations, &found.annotations, applied.annotations.iter());
        let mut patch = self.content()?.patch(&Content::read(self.kind, copy)?);
        if patch.is_empty() && labels.is_empty() && annotations.is_empty() {
            return Ok(None);
        }
        let mut metadata = Map::new();
        metadata.insert("uid".to_owned(), found.uid.as_str().into());
        metadata.insert("resourceVersion".to_owned(), found.resource_version.as_str().into());
        for (member, changes) in [("labels", labels), ("annotations", annotations)] {
            if !changes.is_empty() {
                metadata.insert(member.to_owned(), changes.into());
            }
        }
        self.add_missing(distribution, &found, &mut metadata)?;
        patch.insert("metadata".to_owned(), metadata.into());
        Ok(Some(Value::from(patch).to_string()))
    }

    /// Owners and finalizers are no reason for a write, but come along with one. Those of others stay.
    fn add_missing(
        &self,
        distribution: &Distribution,
        found: &ObjectMeta,
        patch: &mut Map<String, Value>,
    ) -> Result<(), serde_json::Error> {
        let Metadata { finalizers, owner_references, .. } = self.metadata()?;
        let mut owners = Vec::new();
        for reference in owner_references.iter().flatten() {
            let reference: Value = serde_json::from_str(reference.get())?;
            let uid = reference.get("uid").and_then(Value::as_str).unwrap_or_default();
            if uid != distribution.uid && !found.owner_references.iter().any(|known| known.uid == uid) {
                owners.push(reference);
            }
        }
        let ours = found.owner_references.iter().find(|known| known.uid == distribution.uid);
        if ours.is_none_or(|known| {
            (known.api_version.as_str(), known.name.as_str())
                != (resourcedistribution::API_VERSION, distribution.name.as_str())
        }) {
            owners.push(to_value(owner(distribution))?);
        }
        if !owners.is_empty() {
            patch.insert("ownerReferences".to_owned(), owners.into());
        }
        let missing = finalizers.into_iter().flatten().filter(|name| !found.finalizers.contains(name));
        let missing: Vec<String> = missing.collect();
        // An object that is being deleted takes no more of them.
        if !missing.is_empty() && found.deletion_timestamp.is_none() {
            patch.insert("finalizers".to_owned(), json!(missing));
        }
        Ok(())
    }
}
