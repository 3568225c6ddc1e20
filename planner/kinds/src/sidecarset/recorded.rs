//! ControllerRevisions of SidecarSets as admission needs them: it injects from an older one where
//! `spec.injectionStrategy.revision` names it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use api::Raw;
use api::annotations::{SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE};
use api::labels::{SIDECARSET_CUSTOM_VERSION, SIDECARSET_NAME};
use api::sidecarset::Spec;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::contribution::Contribution;
use values::hash::sidecarset_hashes;

/// A ControllerRevision that belongs to a SidecarSet.
#[derive(Debug)]
pub struct RecordedRevision {
    /// The revision's name.
    pub name: String,
    /// The SidecarSet's name.
    pub sidecar_set: String,
    /// The custom version that it is labelled with.
    pub custom_version: Option<String>,
    /// Its number; a higher one is newer.
    pub revision: i64,
    created: String,
    hashes: [Option<String>; 2],
    /// The object's `data`.
    pub data: Raw,
    /// What the data says, read when first needed: most revisions are never injected.
    restored: OnceLock<Result<Restored, String>>,
}

/// What a revision adds to Pods, and the hashes it is known by.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) contribution: Contribution,
    pub(crate) hash: String,
    pub(crate) hash_without_image: String,
}

impl RecordedRevision {
    /// Reads a ControllerRevision; `None` where it belongs to no SidecarSet.
    pub(crate) fn read(object: &str) -> Result<Option<Self>, serde_json::Error> {
        let Object { metadata, data, revision } = serde_json::from_str(object)?;
        let (labels, annotations) =
            (metadata.labels.unwrap_or_default(), metadata.annotations.unwrap_or_default());
        let Some(sidecar_set) = labels.get(SIDECARSET_NAME) else { return Ok(None) };
        let hash = |key: &str| annotations.get(key).filter(|hash| !hash.is_empty()).cloned();
        Ok(Some(Self {
            name: metadata.name,
            sidecar_set: sidecar_set.clone(),
            custom_version: labels.get(SIDECARSET_CUSTOM_VERSION).cloned(),
            revision,
            created: metadata.creation_timestamp.unwrap_or_default(),
            hashes: [hash(SIDECARSET_HASH), hash(SIDECARSET_HASH_WITHOUT_IMAGE)],
            data,
            restored: OnceLock::new(),
        }))
    }

    /// What this revision adds to Pods.
    ///
    /// # Errors
    /// Why the data can't be read.
    pub(crate) fn restored(&self) -> Result<&Restored, &str> {
        self.restored.get_or_init(|| self.restore()).as_ref().map_err(String::as_str)
    }

    fn restore(&self) -> Result<Restored, String> {
        #[derive(Deserialize)]
        struct Data<'a> {
            #[serde(borrow)]
            spec: &'a RawValue,
        }
        let Data { spec } =
            serde_json::from_str(self.data.get()).map_err(|error| format!("data: {error}"))?;
        let fields: Spec = serde_json::from_str(spec.get()).map_err(|error| format!("data.spec: {error}"))?;
        let contribution = Contribution::prepare(&fields).map_err(|error| format!("data.{error}"))?;
        let [hash, hash_without_image] = &self.hashes;
        if let (Some(hash), Some(hash_without_image)) = (hash, hash_without_image) {
            let (hash, hash_without_image) = (hash.clone(), hash_without_image.clone());
            return Ok(Restored { contribution, hash, hash_without_image });
        }
        let computed = sidecarset_hashes(spec.get()).map_err(|error| format!("data.spec: {error}"))?;
        Ok(Restored {
            contribution,
            hash: hash.clone().unwrap_or(computed.hash),
            hash_without_image: hash_without_image.clone().unwrap_or(computed.hash_without_image),
        })
    }
}

#[derive(Deserialize)]
struct Object {
    metadata: ObjectMetadata,
    data: Raw,
    #[serde(default)]
    revision: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMetadata {
    name: String,
    creation_timestamp: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// All ControllerRevisions of SidecarSets.
#[derive(Clone, Debug, Default)]
pub struct RecordedRevisions {
    by_name: HashMap<String, Arc<RecordedRevision>>,
    by_sidecar_set: HashMap<String, Vec<Arc<RecordedRevision>>>,
}

impl RecordedRevisions {
    /// Takes in a revision, new or changed.
    pub(crate) fn insert(&mut self, revision: RecordedRevision) {
        self.remove(&revision.name);
        let revision = Arc::new(revision);
        let siblings = self.by_sidecar_set.entry(revision.sidecar_set.clone()).or_default();
        siblings.push(revision.clone());
        siblings.sort_by(|left, right| {
            let order = |one: &RecordedRevision| (one.revision, one.created.clone(), one.name.clone());
            order(left).cmp(&order(right))
        });
        self.by_name.insert(revision.name.clone(), revision);
    }

    /// Forgets a revision.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(revision) = self.by_name.remove(name) else { return };
        let Some(siblings) = self.by_sidecar_set.get_mut(&revision.sidecar_set) else { return };
        siblings.retain(|sibling| sibling.name != name);
        if siblings.is_empty() {
            self.by_sidecar_set.remove(&revision.sidecar_set);
        }
    }

    /// A revision by name.
    pub fn get(&self, name: &str) -> Option<&RecordedRevision> {
        self.by_name.get(name).map(Arc::as_ref)
    }

    /// Those of a SidecarSet, of one custom version where one is given, from the oldest to the newest.
    pub fn of(&self, sidecar_set: &str, custom_version: Option<&str>) -> Vec<&RecordedRevision> {
        let siblings = self.by_sidecar_set.get(sidecar_set).into_iter().flatten().map(Arc::as_ref);
        let wanted = |revision: &&RecordedRevision| {
            custom_version.is_none() || revision.custom_version.as_deref() == custom_version
        };
        siblings.filter(wanted).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}
