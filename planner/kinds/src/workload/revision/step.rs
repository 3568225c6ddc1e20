//! What to write so that the present data has its revision: a new one, or a patch of an old one.

use std::collections::BTreeMap;
use std::fmt::Display;

use api::Raw;
use api::annotations::{CLAIM_TEMPLATES, WHOLE_TEMPLATE};
use api::kinds::ObjectMeta;
use api::labels::CONTROLLER_REVISION_HASH;
use serde::Serialize;

use super::data::RevisionData;
use super::stored::StoredRevision;
use super::template::template_labels;
use crate::workload::object_version::ObjectVersion;
use crate::workload::owner::Owner;

/// The API server takes so many bytes of annotations.
const MOST_ANNOTATIONS: usize = 256 * 1024;

/// One write of a ControllerRevision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionStep {
    /// Create it. Where the name is taken, [`NewRevision::after_collision`] says how to continue.
    Create(Box<NewRevision>),
    /// Send this merge patch to a stored one: an older revision is wanted again and becomes the newest, or
    /// the current one gets a label.
    Patch {
        /// The revision.
        revision: ObjectVersion,
        /// The merge patch, with its preconditions.
        patch: String,
    },
}

impl RevisionStep {
    /// The name of the revision.
    pub fn name(&self) -> &str {
        match self {
            Self::Create(revision) => &revision.name,
            Self::Patch { revision, .. } => &revision.name,
        }
    }
}

/// The revision that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// What it records.
    pub data: RevisionData,
    /// Whose it is.
    pub owner: Owner<'a>,
    /// The namespace that holds the owner's revisions.
    pub namespace: &'a str,
    /// Labels of a new one, beside that of its hash.
    pub labels: BTreeMap<String, String>,
    /// Annotations of a new one, beside our marker.
    pub annotations: BTreeMap<String, String>,
    /// The label that holds the short hash.
    pub hash_label: &'a str,
    /// `status.collisionCount` of the owner.
    pub collision_count: i32,
    /// A label that the current revision must have, though it was stored before.
    pub label_of_current: Option<(&'static str, &'a str)>,
    /// An annotation that an old revision must have when it becomes the newest.
    pub annotation_of_newest: Option<(&'static str, &'a str)>,
    /// The claim templates that belong to it, a JSON list; none for kinds that have no claims.
    pub claims: Option<&'a str>,
    /// A revision of the wanted name that somebody else owns is of no use, whatever it records.
    pub must_be_owned: bool,
}

impl<'a> Wanted<'a> {
    /// The revision of a workload's Pod template.
    ///
    /// # Errors
    /// Why the template can't be recorded.
    pub fn of_template(
        owner: Owner<'a>,
        metadata: &'a ObjectMeta,
        template: Option<&Raw>,
        hash_label: &'a str,
        collision_count: i32,
    ) -> Result<Self, String> {
        let unreadable = |error: &dyn Display| format!("spec.template can't be read: {error}");
        let template = template.ok_or("spec.template is missing")?.get();
        Ok(Self {
            data: RevisionData::of_template(template).map_err(|error| unreadable(&error))?,
            owner,
            namespace: &metadata.namespace,
            labels: template_labels(template).map_err(|error| unreadable(&error))?,
            annotations: metadata.annotations.clone(),
            hash_label,
            collision_count,
            label_of_current: None,
            annotation_of_newest: None,
            claims: None,
            must_be_owned: true,
        })
    }

    /// The claim templates, as far as there is room for them beside these annotations.
    fn recorded_claims(&self, others: &BTreeMap<String, String>) -> Option<&'a str> {
        let others = others.iter().filter(|(key, _)| *key != CLAIM_TEMPLATES);
        let size: usize = others.map(|(key, value)| key.len() + value.len()).sum();
        self.claims.filter(|claims| size + CLAIM_TEMPLATES.len() + claims.len() <= MOST_ANNOTATIONS)
    }
}

/// A ControllerRevision to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    /// Its name.
    pub name: String,
    /// The count that the name was made with: what `status.collisionCount` becomes.
    pub collision_count: i32,
    data: RevisionData,
    owner: String,
    /// The label that holds the hash of the name, where Pods name their revision by it.
    followed: Option<&'static str>,
    /// The UID that a revision of the same name must be owned by to be used.
    owner_uid: Option<String>,
    /// The object's JSON text from behind the name on: it stays when a name is taken.
    rest: String,
}

impl NewRevision {
    /// The wanted revision with this number.
    fn new(mut wanted: Wanted<'_>, number: i64) -> Self {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            namespace: &'a str,
            labels: BTreeMap<String, String>,
            annotations: BTreeMap<String, String>,
            owner_references: [Owner<'a>; 1],
        }
        wanted.annotations.insert(WHOLE_TEMPLATE.to_owned(), "true".to_owned());
        let recorded = wanted.recorded_claims(&wanted.annotations);
        let Wanted { data, owner, namespace, mut labels, mut annotations, collision_count, .. } = wanted;
        labels.insert(wanted.hash_label.to_owned(), data.hash(collision_count));
        annotations.remove(CLAIM_TEMPLATES);
        annotations.extend(recorded.map(|claims| (CLAIM_TEMPLATES.to_owned(), claims.to_owned())));
        let metadata = Metadata { namespace, labels, annotations, owner_references: [owner] };
        // Texts in maps with text keys only: writing them as JSON cannot fail.
        let metadata = serde_json::to_string(&metadata).unwrap_or_default();
        let members = metadata.strip_prefix('{').unwrap_or_default();
        Self {
            name: data.name(owner.name(), collision_count),
            collision_count,
            owner: owner.name().to_owned(),
            followed: (wanted.hash_label == CONTROLLER_REVISION_HASH).then_some(CONTROLLER_REVISION_HASH),
            owner_uid: wanted.must_be_owned.then(|| owner.uid().to_owned()),
            rest: format!(r#"{members},"data":{},"revision":{number}}}"#, data.data()),
            data,
        }
    }

    /// The object to create.
    pub fn to_json(&self) -> String {
        let (name, rest) = (values::json_patch::string(&self.name), &self.rest);
        format!(r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":{name},{rest}"#)
    }

    /// What to do when the name is taken: `None` if the one that has it means the same and is used, else
    /// this revision under the next name. Its labels stay as they are, but for one by which Pods name it.
    #[must_use]
    pub fn after_collision(&self, existing: &StoredRevision) -> Option<Self> {
        let owner = existing.metadata.controller();
        let is_usable = match (&self.owner_uid, owner) {
            (Some(uid), Some(owner)) => owner.uid == *uid,
            _ => true,
        };
        if is_usable && self.data.means_the_same_as(existing) {
            return None;
        }
        let collision_count = self.collision_count.wrapping_add(1);
        let name = self.data.name(&self.owner, collision_count);
        let mut next = Self { name, collision_count, ..self.clone() };
        if let Some(label) = self.followed {
            let pair = |count| format!(r#""{label}":"{}""#, self.data.hash(count));
            // Labels come before all that others wrote.
            next.rest = self.rest.replacen(&pair(self.collision_count), &pair(collision_count), 1);
        }
        Some(next)
    }
}

/// The revision that is wanted, and the write that it takes.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The stored revision that records the same; none where it is to be created.
    pub stored: Option<&'a StoredRevision>,
    /// What to write first.
    pub step: Option<RevisionStep>,
}

impl Choice<'_> {
    /// The name of the wanted revision.
    pub fn name(&self) -> &str {
        let created = self.step.as_ref().map_or("", RevisionStep::name);
        self.stored.map_or(created, StoredRevision::name)
    }
}

/// Finds the wanted revision in `history`, which is sorted, or plans one. Pods of the update revision are made
/// from the present template itself: an equal revision of OpenKruise may lack fields of it.
pub fn choose<'a>(wanted: Wanted<'_>, history: &[&'a StoredRevision]) -> Choice<'a> {
    let next = history.last().map_or(0, |newest| newest.revision).saturating_add(1);
    let equal = history.iter().rposition(|revision| wanted.data.means_the_same_as(revision));
    let Some((position, stored)) = equal.and_then(|at| Some((at, *history.get(at)?))) else {
        let revision = NewRevision::new(wanted, next);
        return Choice { stored: None, step: Some(RevisionStep::Create(Box::new(revision))) };
    };
    let is_newest = position.saturating_add(1) == history.len();
    let patch = patch(&wanted, stored, (!is_newest).then_some(next));
    let step =
        patch.map(|patch| RevisionStep::Patch { revision: ObjectVersion::object(&stored.metadata), patch });
    Choice { stored: Some(stored), step }
}

/// The merge patch that gives a stored revision its number and marks; it holds for this state of it only.
fn patch(wanted: &Wanted<'_>, stored: &StoredRevision, number: Option<i64>) -> Option<String> {
    #[derive(Serialize)]
    struct Patch<'a> {
        metadata: Metadata<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        revision: Option<i64>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        uid: &'a str,
        resource_version: &'a str,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        annotations: BTreeMap<&'static str, Option<&'a str>>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<&'static str, &'a str>,
    }
    let known = &stored.metadata;
    let lacks = |pairs: &BTreeMap<String, String>, (key, value): &(&'static str, &str)| {
        pairs.get(*key).map(String::as_str) != Some(*value)
    };
    let annotation =
        wanted.annotation_of_newest.filter(|pair| number.is_some() && lacks(&known.annotations, pair));
    let label = wanted.label_of_current.filter(|pair| lacks(&known.labels, pair));
    // A revision that does not record its claim templates is left as it is, until it is written anyway.
    let known_claims = known.annotations.get(CLAIM_TEMPLATES).map(String::as_str);
    let claims = wanted.recorded_claims(&known.annotations);
    let is_due = wanted.claims.is_some() && (number.is_some() || known_claims.is_some());
    let claims = (is_due && claims != known_claims).then_some((CLAIM_TEMPLATES, claims));
    if number.is_none() && label.is_none() && claims.is_none() {
        return None;
    }
    let metadata = Metadata {
        uid: &known.uid,
        resource_version: &known.resource_version,
        annotations: annotation.map(|(key, value)| (key, Some(value))).into_iter().chain(claims).collect(),
        labels: label.into_iter().collect(),
    };
    // Texts in maps with text keys only: writing them as JSON cannot fail.
    Some(serde_json::to_string(&Patch { metadata, revision: number }).unwrap_or_default())
}
