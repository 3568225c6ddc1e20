//! The ControllerRevisions of a SidecarSet: which one is current, what to write so that there is one, and
//! which are not needed any more (spec 20 §5).
//!
//! Data is compared by meaning and names are made from the bytes that OpenKruise would store, so an
//! installation of OpenKruise is taken over, and handed back, without a new revision (spec 20 §12.19).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::annotations::{SIDECARSET_HASH, WHOLE_TEMPLATE};
use api::labels::{CONTROLLER_HASH, SIDECARSET_CUSTOM_VERSION, SIDECARSET_NAME};
use serde::Serialize;

use super::rollout::{RolloutSet, record};
use crate::pod::observed::ObservedPod;
use crate::text::canonical::CanonicalError;
use crate::workload::revision::SidecarSetRevision;
use crate::workload::revision::object::Nameless;
use crate::workload::revision::workload::{Owner, StoredRevision};

/// How many revisions are kept where the SidecarSet does not say.
const DEFAULT_LIMIT: i32 = 10;
/// Where kubectl keeps a second copy of the object; it would only double the size of each revision.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What to do so that the present sidecars have their revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The current revision.
    pub latest: Latest,
    /// A change of a stored revision, which makes it current or labels it with the custom version.
    pub patch: Option<RevisionPatch>,
    /// Revisions to delete, oldest first.
    pub obsolete: Vec<RevisionKey>,
}

/// The current revision.
#[derive(Clone, Debug, PartialEq)]
pub enum Latest {
    /// It is stored.
    Stored {
        /// Its name.
        name: String,
    },
    /// It is to be created.
    New(NewRevision),
}

impl Latest {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Stored { name } => name,
            Self::New(revision) => &revision.name,
        }
    }
}

/// A stored revision in a certain state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionKey {
    /// Its name, in the install namespace.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// The version of its state.
    pub resource_version: String,
}

/// A JSON merge patch of a stored revision, with its UID and resource version in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionPatch {
    /// The revision's name.
    pub name: String,
    /// The patch.
    pub json: String,
}

/// A ControllerRevision to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRevision {
    /// Its name.
    pub name: String,
    /// The count that the name was made with: what `status.collisionCount` becomes.
    pub collision_count: i32,
    set: Box<str>,
    revision: SidecarSetRevision,
    object: Nameless,
}

impl NewRevision {
    fn new(set: &RolloutSet, revision: SidecarSetRevision, number: i64, namespace: &str) -> Self {
        let recorded = &set.recorded;
        let collision_count = set.status.collision_count.unwrap_or(0);
        let mut labels = recorded.labels.clone();
        labels.insert(CONTROLLER_HASH.to_owned(), revision.hash(collision_count));
        labels.insert(SIDECARSET_NAME.to_owned(), set.name.to_string());
        if !recorded.custom_version.is_empty() {
            labels.insert(SIDECARSET_CUSTOM_VERSION.to_owned(), recorded.custom_version.to_string());
        }
        let mut annotations = recorded.annotations.clone();
        annotations.remove(LAST_APPLIED);
        annotations.insert(WHOLE_TEMPLATE.to_owned(), "true".to_owned());
        let owner = Owner::new(api::sidecarset::API_VERSION, api::sidecarset::KIND, &set.name, &set.uid);
        let object = Nameless::new(namespace, &labels, &annotations, owner, revision.data(), number);
        let name = revision.name(&set.name, collision_count);
        Self { name, collision_count, set: set.name.clone(), revision, object }
    }

    /// The object to create.
    pub fn to_json(&self) -> String {
        self.object.named(&self.name)
    }

    /// What to do when the name is taken: `None` if the one that has it means the same and is used, else
    /// this revision under the next name. Its labels stay as they are.
    #[must_use]
    pub fn after_collision(&self, existing: &StoredRevision) -> Option<Self> {
        if self.revision.means_the_same_as(existing.data.get(), existing.author()) {
            return None;
        }
        let collision_count = self.collision_count.wrapping_add(1);
        let name = self.revision.name(&self.set, collision_count);
        Some(Self { name, collision_count, ..self.clone() })
    }
}

/// Plans the registration of the present sidecars. `stored` are the ControllerRevisions of `namespace`,
/// where Kutter is installed, that are labelled with the SidecarSet's name; `pods` those that name it.
/// `None` while the SidecarSet is being deleted: what is written then would only be collected again.
///
/// # Errors
/// The path and the problem, where a sidecar does not decode into its Go type.
pub fn plan(
    set: &RolloutSet,
    stored: &[StoredRevision],
    pods: &[Arc<ObservedPod>],
    namespace: &str,
) -> Result<Option<Registration>, CanonicalError> {
    if set.deleting {
        return Ok(None);
    }
    let wanted = SidecarSetRevision::of_spec(set.recorded.spec.get())?;
    let mut history = of_set(set, stored);
    let number = history.last().map_or(0, |newest| newest.revision).saturating_add(1);
    let same = |revision: &&StoredRevision| wanted.means_the_same_as(revision.data.get(), revision.author());
    let Some(position) = history.iter().rposition(same) else {
        let latest = Latest::New(NewRevision::new(set, wanted, number, namespace));
        let obsolete = obsolete(set, &history, 1, pods);
        return Ok(Some(Registration { latest, patch: None, obsolete }));
    };
    let is_newest = position.saturating_add(1) == history.len();
    let found = history.remove(position);
    let patch = Change::of(set, found, (!is_newest).then_some(number)).to_patch(found);
    history.push(found);
    let kept = history.split_last().map_or(&[][..], |(_, older)| older);
    let latest = Latest::Stored { name: found.name().to_owned() };
    Ok(Some(Registration { latest, patch, obsolete: obsolete(set, kept, 1, pods) }))
}

/// Those of `stored` that belong to the SidecarSet or to nobody, oldest first.
fn of_set<'a>(set: &RolloutSet, stored: &'a [StoredRevision]) -> Vec<&'a StoredRevision> {
    let ours = |revision: &&StoredRevision| {
        let owner = revision.metadata.controller();
        revision.metadata.labels.get(SIDECARSET_NAME).is_some_and(|name| **name == *set.name)
            && owner.is_none_or(|owner| *owner.uid == *set.uid)
    };
    let mut history: Vec<&StoredRevision> = stored.iter().filter(ours).collect();
    history.sort_by_cached_key(|revision| {
        let created = revision.metadata.creation_timestamp.as_ref().and_then(api::kinds::Time::timestamp);
        (revision.revision, created, revision.metadata.name.clone())
    });
    history
}

/// What changes in the revision that is current.
struct Change<'a> {
    revision: Option<i64>,
    custom_version: Option<&'a str>,
}

impl<'a> Change<'a> {
    fn of(set: &'a RolloutSet, found: &StoredRevision, revision: Option<i64>) -> Self {
        let custom_version = Some(&*set.recorded.custom_version).filter(|version| !version.is_empty());
        let present = found.metadata.labels.get(SIDECARSET_CUSTOM_VERSION).map(String::as_str);
        Self { revision, custom_version: custom_version.filter(|version| present != Some(*version)) }
    }

    fn to_patch(&self, found: &StoredRevision) -> Option<RevisionPatch> {
        #[derive(Serialize)]
        struct Patch<'a> {
            metadata: PatchMetadata<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            revision: Option<i64>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct PatchMetadata<'a> {
            uid: &'a str,
            resource_version: &'a str,
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            labels: BTreeMap<&'static str, &'a str>,
        }
        if self.revision.is_none() && self.custom_version.is_none() {
            return None;
        }
        let metadata = PatchMetadata {
            uid: &found.metadata.uid,
            resource_version: &found.metadata.resource_version,
            labels: self
                .custom_version
                .map(|version| (SIDECARSET_CUSTOM_VERSION, version))
                .into_iter()
                .collect(),
        };
        let json = serde_json::to_string(&Patch { metadata, revision: self.revision }).unwrap_or_default();
        Some(RevisionPatch { name: found.name().to_owned(), json })
    }
}

/// The revisions to delete among `older`, which are sorted, beside `current` others that are kept in any
/// case.
fn obsolete(
    set: &RolloutSet,
    older: &[&StoredRevision],
    current: usize,
    pods: &[Arc<ObservedPod>],
) -> Vec<RevisionKey> {
    let limit = usize::try_from(set.recorded.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(0).max(1);
    let surplus = older.len().saturating_add(current).saturating_sub(limit);
    if surplus == 0 {
        return Vec::new();
    }
    let given =
        pods.iter().filter_map(|pod| record::injected(pod, SIDECARSET_HASH, &set.name).controller_revision);
    let mut used: BTreeSet<String> = given.collect();
    if let Some(pin) = &set.recorded.pin {
        used.extend(pin.revision_name.clone());
        let version = pin.custom_version.as_deref().filter(|version| !version.is_empty());
        let labelled = |revision: &&&StoredRevision| {
            version.is_some_and(|version| {
                revision.metadata.labels.get(SIDECARSET_CUSTOM_VERSION).is_some_and(|label| label == version)
            })
        };
        used.extend(older.iter().rev().find(labelled).map(|revision| revision.name().to_owned()));
    }
    let idle = older.iter().filter(|revision| !used.contains(revision.name()));
    let key = |revision: &&StoredRevision| RevisionKey {
        name: revision.name().to_owned(),
        uid: revision.metadata.uid.clone(),
        resource_version: revision.metadata.resource_version.clone(),
    };
    idle.take(surplus).map(key).collect()
}

#[cfg(test)]
mod tests;
