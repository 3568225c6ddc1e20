//! ControllerRevisions of workloads: CloneSet, Advanced StatefulSet and Advanced DaemonSet record their Pod
//! template in them, and nothing else (spec 30 §2).
//!
//! OpenKruise's revisions hold the fields of the template that its Go types know; ours hold the others too
//! and are marked with annotation `kutter.io/whole-template`. Names and hashes come from what OpenKruise
//! would store, so a cluster is taken over, and handed back, without a new revision.

use std::collections::{BTreeMap, BTreeSet};

use api::Raw;
use api::annotations::{CLONESET_CLAIMS_HASH, WHOLE_TEMPLATE};
use api::kinds::ObjectMeta;
use api::labels::CONTROLLER_HASH;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::object::Nameless;
use super::{Author, MAX_OWNER_NAME};
use crate::pod::observed::ObservedPod;
use crate::text::canonical::{CanonicalError, Kind, Numbers, Unknown, canonical_json, sorted_json, table};
use crate::text::hash::{deep_hash, fnv1_32, safe_encode};
use crate::text::selector::Selector;

#[cfg(test)]
mod tests;

pub use crate::pod::revision_labels::{RevisionLabels, short_hash};

const TEMPLATE: Kind = Kind::Struct(&table::POD_TEMPLATE_SPEC);
/// The directive in stored data that is no part of the template. `kubectl kruise rollout undo` copies it
/// into templates.
const DIRECTIVE: &str = "$patch";

/// What a revision of a Pod template holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateRevision {
    data: String,
    projection: String,
}

impl TemplateRevision {
    /// The revision of a workload's `spec.template`, which must be defaulted already.
    ///
    /// # Errors
    /// The path and the problem, where a field does not decode into its Go type.
    pub fn of_template(template: &str) -> Result<Self, CanonicalError> {
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(template)?;
        members.remove(DIRECTIVE);
        let template = serde_json::to_string(&members)?;
        let patch = |unknown, numbers| {
            let template = canonical_json(&template, &TEMPLATE, unknown)?;
            let members = template.strip_prefix('{').unwrap_or(&template);
            let data = format!(r#"{{"spec":{{"template":{{"{DIRECTIVE}":"replace",{members}}}}}"#);
            sorted_json(&data, numbers)
        };
        Ok(Self {
            data: patch(Unknown::Keep, Numbers::Exact)?,
            projection: patch(Unknown::Drop, Numbers::Double)?,
        })
    }

    /// The revision that stored data restores.
    ///
    /// # Errors
    /// Where the data is not a patch of a template.
    pub fn of_data(data: &str) -> Result<Self, CanonicalError> {
        Self::of_template(restored_template(data)?.get())
    }

    /// What to store: compact JSON with sorted keys, every field of the template in it.
    pub fn data(&self) -> &str {
        &self.data
    }

    /// The part of the data that OpenKruise knows.
    pub fn projection(&self) -> &str {
        &self.projection
    }

    /// The short hash, made from the bytes that OpenKruise would store.
    pub fn hash(&self, collision_count: i32) -> String {
        let digits = collision_count.to_string();
        safe_encode(&fnv1_32(self.projection.bytes().chain(digits.bytes())).to_string())
    }

    /// The name of the ControllerRevision.
    pub fn name(&self, workload: &str, collision_count: i32) -> String {
        let workload = workload.get(..MAX_OWNER_NAME).unwrap_or(workload);
        format!("{workload}-{}", self.hash(collision_count))
    }

    /// True if the stored revision means the same template (spec 30 §2.4). Data that cannot be read means
    /// nothing.
    pub fn means_the_same_as(&self, stored: &StoredRevision) -> bool {
        if stored.data.get() == self.data {
            return true;
        }
        Self::of_data(stored.data.get()).is_ok_and(|restored| match stored.author() {
            Author::Kutter => restored.data == self.data,
            Author::OpenKruise => restored.projection == self.projection,
        })
    }
}

/// The template that stored data restores, without the directive that it replaces the present one.
///
/// # Errors
/// Where the data is not a patch of a template.
pub fn restored_template(data: &str) -> Result<Raw, CanonicalError> {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        spec: Spec<'a>,
    }
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        template: BTreeMap<String, &'a RawValue>,
    }
    let mut template = serde_json::from_str::<Data<'_>>(data)?.spec.template;
    template.remove(DIRECTIVE);
    Ok(Raw::parse(serde_json::to_string(&template)?)?)
}

/// A ControllerRevision of a workload as it is stored.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredRevision {
    /// Name, labels, annotations and whose it is.
    pub metadata: ObjectMeta,
    /// The recorded template, as a patch.
    pub data: Raw,
    /// Its number; a higher one is newer.
    #[serde(default)]
    pub revision: i64,
}

impl StoredRevision {
    /// Reads a ControllerRevision from its JSON text.
    ///
    /// # Errors
    /// A text that is no ControllerRevision.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// The revision's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Who wrote the data: ours is marked.
    pub fn author(&self) -> Author {
        match self.metadata.annotations.get(WHOLE_TEMPLATE) {
            Some(mark) if mark == "true" => Author::Kutter,
            _ => Author::OpenKruise,
        }
    }

    /// The recorded template.
    ///
    /// # Errors
    /// Where the data is not a patch of a template.
    pub fn template(&self) -> Result<Raw, CanonicalError> {
        restored_template(self.data.get())
    }

    /// The hash of the volume claim templates; none on revisions that never recorded it.
    pub fn claims_hash(&self) -> Option<&str> {
        self.metadata.annotations.get(CLONESET_CLAIMS_HASH).map(String::as_str)
    }

    /// The claims of Pods at both revisions are alike, or it is not known that they differ (spec 30 §2.5).
    pub fn claims_agree_with(&self, other: &Self) -> bool {
        match (self.claims_hash(), other.claims_hash()) {
            (Some(one), Some(another)) => one == another,
            _ => true,
        }
    }
}

/// The revisions of a workload, oldest first: those that its selector matches and that belong to it or to
/// nobody (spec 30 §2.4).
pub fn history<'a>(
    revisions: impl IntoIterator<Item = &'a StoredRevision>,
    selector: &Selector,
    uid: &str,
) -> Vec<&'a StoredRevision> {
    let ours = |revision: &&StoredRevision| {
        selector.matches(&revision.metadata.labels)
            && revision.metadata.controller().is_none_or(|owner| owner.uid == uid)
    };
    let mut revisions: Vec<_> = revisions.into_iter().filter(ours).collect();
    revisions.sort_by_cached_key(|revision| {
        let created = revision.metadata.creation_timestamp.as_ref().and_then(api::kinds::Time::timestamp);
        (revision.revision, created, revision.metadata.name.clone())
    });
    revisions
}

/// The workload whose template is recorded.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Group and version of the owner reference, `apps.kruise.io/v1beta1`.
    pub api_version: &'a str,
    /// The workload's kind.
    pub kind: &'a str,
    /// Its name, namespace, UID and annotations.
    pub metadata: &'a ObjectMeta,
    /// The labels of its template.
    pub template_labels: &'a BTreeMap<String, String>,
    /// The label that holds the short hash.
    pub hash_label: &'a str,
    /// Of a CloneSet, the hash of its volume claim templates.
    pub claims_hash: Option<String>,
    /// `status.collisionCount`.
    pub collision_count: i32,
}

impl<'a> Workload<'a> {
    /// A CloneSet or StatefulSet without a hash of claims.
    pub fn new(
        api_version: &'a str,
        kind: &'a str,
        metadata: &'a ObjectMeta,
        template_labels: &'a BTreeMap<String, String>,
    ) -> Self {
        Self {
            api_version,
            kind,
            metadata,
            template_labels,
            hash_label: CONTROLLER_HASH,
            claims_hash: None,
            collision_count: 0,
        }
    }
}

/// What is to be done so that the present template has its revision. Pods of the update revision are made
/// from the present template itself: an equal revision of OpenKruise may lack fields of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The newest revision is the one; nothing is written.
    UseNewest {
        /// Its name.
        name: String,
    },
    /// An older revision is wanted again: it becomes the newest.
    BumpOld(Bump),
    /// There is none yet.
    Create(NewRevision),
}

impl Choice {
    /// The name of the update revision.
    pub fn name(&self) -> &str {
        match self {
            Self::UseNewest { name } => name,
            Self::BumpOld(bump) => &bump.name,
            Self::Create(revision) => &revision.name,
        }
    }
}

/// A change that makes an old revision the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bump {
    /// The revision's name.
    pub name: String,
    /// The number it gets.
    pub revision: i64,
    /// The hash of the volume claim templates to write, where it is missing or another.
    pub claims_hash: Option<String>,
}

impl Bump {
    /// The merge patch, which holds for this state of the revision only.
    pub fn to_json(&self, stored: &StoredRevision) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Patch<'a> {
            metadata: Metadata<'a>,
            revision: i64,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            uid: &'a str,
            resource_version: &'a str,
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            annotations: BTreeMap<&'static str, &'a str>,
        }
        let annotations = self.claims_hash.iter().map(|hash| (CLONESET_CLAIMS_HASH, hash.as_str()));
        let metadata = Metadata {
            uid: &stored.metadata.uid,
            resource_version: &stored.metadata.resource_version,
            annotations: annotations.collect(),
        };
        // Texts in maps with text keys only: writing them as JSON cannot fail.
        serde_json::to_string(&Patch { metadata, revision: self.revision }).unwrap_or_default()
    }
}

/// A ControllerRevision to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    /// Its name.
    pub name: String,
    /// The count that the name was made with: what `status.collisionCount` becomes.
    pub collision_count: i32,
    workload: String,
    revision: TemplateRevision,
    owner_uid: String,
    object: Nameless,
}

impl NewRevision {
    fn new(revision: TemplateRevision, number: i64, workload: &Workload<'_>) -> Self {
        let metadata = workload.metadata;
        let mut labels = workload.template_labels.clone();
        labels.insert(workload.hash_label.to_owned(), revision.hash(workload.collision_count));
        let mut annotations = metadata.annotations.clone();
        annotations.insert(WHOLE_TEMPLATE.to_owned(), "true".to_owned());
        if let Some(hash) = &workload.claims_hash {
            annotations.insert(CLONESET_CLAIMS_HASH.to_owned(), hash.clone());
        }
        let owner = Owner::of(workload.api_version, workload.kind, metadata);
        let object = Nameless::new(&metadata.namespace, &labels, &annotations, owner, &revision.data, number);
        Self {
            name: revision.name(&metadata.name, workload.collision_count),
            collision_count: workload.collision_count,
            workload: metadata.name.clone(),
            revision,
            owner_uid: metadata.uid.clone(),
            object,
        }
    }

    /// The object to create.
    pub fn to_json(&self) -> String {
        self.object.named(&self.name)
    }

    /// What to do when the name is taken: `None` if the one that has it is just this revision, else this
    /// revision under the next name. Its labels stay as they are (spec 30 §2.3).
    #[must_use]
    pub fn after_collision(&self, existing: &StoredRevision) -> Option<Self> {
        let ours = existing.metadata.controller().is_none_or(|owner| owner.uid == self.owner_uid);
        if ours && self.revision.means_the_same_as(existing) {
            return None;
        }
        let collision_count = self.collision_count.wrapping_add(1);
        let name = self.revision.name(&self.workload, collision_count);
        Some(Self { name, collision_count, ..self.clone() })
    }
}

/// An owner reference that makes the owner the controller.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    controller: bool,
    block_owner_deletion: bool,
}

impl<'a> Owner<'a> {
    pub(crate) fn of(api_version: &'a str, kind: &'a str, metadata: &'a ObjectMeta) -> Self {
        Self::new(api_version, kind, &metadata.name, &metadata.uid)
    }

    pub(crate) fn new(api_version: &'a str, kind: &'a str, name: &'a str, uid: &'a str) -> Self {
        Self { api_version, kind, name, uid, controller: true, block_owner_deletion: true }
    }
}

/// Finds the revision of the present template among `history`, which is sorted, or plans one (spec 30 §2.4).
pub fn choose(candidate: TemplateRevision, history: &[&StoredRevision], workload: &Workload<'_>) -> Choice {
    let Some((newest, older)) = history.split_last() else {
        return Choice::Create(NewRevision::new(candidate, 1, workload));
    };
    if candidate.means_the_same_as(newest) {
        return Choice::UseNewest { name: newest.metadata.name.clone() };
    }
    let number = newest.revision.saturating_add(1);
    let Some(equal) = older.iter().rev().find(|revision| candidate.means_the_same_as(revision)) else {
        return Choice::Create(NewRevision::new(candidate, number, workload));
    };
    let claims_hash = workload.claims_hash.clone();
    Choice::BumpOld(Bump {
        name: equal.metadata.name.clone(),
        revision: number,
        claims_hash: claims_hash.filter(|hash| equal.claims_hash() != Some(hash)),
    })
}

/// The revision from which Pods are updated: the one that status names; else the caller takes the update
/// revision.
pub fn current<'a>(history: &[&'a StoredRevision], name: &str) -> Option<&'a StoredRevision> {
    history.iter().find(|revision| revision.metadata.name == name).copied()
}

/// The revisions to delete, oldest first: those that are neither of `live` (by name) nor that of one of
/// the Pods, beyond the newest `limit` of them (spec 30 §2.7).
pub fn obsolete<'a, 'p>(
    history: &[&'a StoredRevision],
    live: &[&str],
    pods: impl IntoIterator<Item = &'p ObservedPod>,
    labels: RevisionLabels,
    limit: i32,
) -> Vec<&'a StoredRevision> {
    let used: BTreeSet<&str> = pods.into_iter().filter_map(|pod| labels.revision_of(pod)).collect();
    let idle = |revision: &&&StoredRevision| {
        let name = revision.metadata.name.as_str();
        !live.contains(&name) && !used.iter().any(|used| labels.same(used, name))
    };
    let mut idle: Vec<_> = history.iter().filter(idle).copied().collect();
    idle.truncate(idle.len().saturating_sub(usize::try_from(limit).unwrap_or(0)));
    idle
}

/// The hash of a CloneSet's `spec.volumeClaimTemplates`, a JSON list: a decimal number, or nothing where
/// there are none (spec 30 §2.5).
///
/// # Errors
/// The path and the problem, where a field does not decode into its Go type.
pub fn claims_hash(templates: &str) -> Result<String, CanonicalError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template<'a> {
        metadata: Option<TemplateMetadata>,
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct TemplateMetadata {
        name: Option<String>,
    }
    let templates: Option<Vec<Template<'_>>> = serde_json::from_str(templates)?;
    let mut claims = Vec::new();
    for template in templates.into_iter().flatten() {
        let name = template.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        let kind = Kind::Struct(&table::PERSISTENT_VOLUME_CLAIM_SPEC);
        let spec = canonical_json(template.spec.map_or("null", RawValue::get), &kind, Unknown::Drop)?;
        let metadata = canonical_json(
            &serde_json::to_string(&BTreeMap::from([("name", &name)]))?,
            &Kind::Struct(&table::OBJECT_META),
            Unknown::Drop,
        )?;
        claims.push((name, format!(r#"{{"metadata":{metadata},"spec":{spec},"status":{{}}}}"#)));
    }
    if claims.is_empty() {
        return Ok(String::new());
    }
    claims.sort_by(|(one, _), (another, _)| one.cmp(another));
    let claims: Vec<String> = claims.into_iter().map(|(_, claim)| claim).collect();
    Ok(deep_hash(&format!("[{}]", claims.join(","))).to_string())
}
