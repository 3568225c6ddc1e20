//! A ControllerRevision as it is stored.

use std::collections::BTreeMap;

use api::Raw;
use api::annotations::{CLAIM_TEMPLATES, CLONESET_CLAIMS_HASH, WHOLE_TEMPLATE};
use api::kinds::{ObjectMeta, Time};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use pod::template::comparison::DIRECTIVE;
use values::canonical::CanonicalError;

/// Who wrote a stored revision: ours carry a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// This product: unknown fields are in the data and count.
    Kutter,
    /// OpenKruise: unknown fields are not in the data and do not count.
    OpenKruise,
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
        let mut revision: Self = serde_json::from_str(json)?;
        // Thousands are kept, each with one owner. A list is read with room for four.
        revision.metadata.owner_references.shrink_to_fit();
        Ok(revision)
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

    /// The claim templates that belong to it, a JSON list; none on revisions that do not record them.
    pub fn claim_templates(&self) -> Option<Raw> {
        let text = self.metadata.annotations.get(CLAIM_TEMPLATES).filter(|text| text.starts_with('['))?;
        Raw::parse(text.as_str()).ok()
    }

    /// The hash of the volume claim templates; none on revisions that never recorded it.
    pub fn claims_hash(&self) -> Option<&str> {
        self.metadata.annotations.get(CLONESET_CLAIMS_HASH).map(String::as_str)
    }

    /// The claims of Pods at both revisions are alike, or it is not known that they differ
    /// (docs/behaviour/revisions.md#claim-hash).
    pub fn claims_agree_with(&self, other: &Self) -> bool {
        match (self.claims_hash(), other.claims_hash()) {
            (Some(one), Some(another)) => one == another,
            _ => true,
        }
    }

    /// What revisions are sorted by, oldest first.
    pub(crate) fn age(&self) -> (i64, Option<Timestamp>, &str) {
        let created = self.metadata.creation_timestamp.as_ref().and_then(Time::timestamp);
        (self.revision, created, &self.metadata.name)
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
