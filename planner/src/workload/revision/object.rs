//! The JSON of ControllerRevisions to create.

use std::collections::BTreeMap;

use serde::Serialize;

use super::workload::Owner;

/// A ControllerRevision but for its name: all else stays when a name is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nameless {
    /// The object's JSON text from behind the name on.
    rest: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    namespace: &'a str,
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
    owner_references: [Owner<'a>; 1],
}

impl Nameless {
    /// A revision with this number that holds `data`, which is JSON.
    pub(crate) fn new(
        namespace: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        owner: Owner<'_>,
        data: &str,
        number: i64,
    ) -> Self {
        let metadata = Metadata { namespace, labels, annotations, owner_references: [owner] };
        // Texts in maps with text keys only: writing them as JSON cannot fail.
        let metadata = serde_json::to_string(&metadata).unwrap_or_default();
        let members = metadata.strip_prefix('{').unwrap_or_default();
        Self { rest: format!(r#"{members},"data":{data},"revision":{number}}}"#) }
    }

    /// The object under this name.
    pub(crate) fn named(&self, name: &str) -> String {
        let (name, rest) = (crate::text::json_patch::string(name), &self.rest);
        format!(r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":{name},{rest}"#)
    }
}
