//! The content of a Secret or ConfigMap in normal form, in which equal contents are equal: what Kubernetes
//! folds, fills in or leaves out when it stores the object makes no difference.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ResourceKind, Texts, changes};

/// The type of Secrets that name none.
const OPAQUE: &str = "Opaque";

/// A content in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    data: Texts,
    binary_data: Texts,
    /// Of a Secret.
    kind: Option<String>,
    immutable: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stated {
    #[serde(deserialize_with = "crate::resourcedistribution::texts")]
    data: Texts,
    #[serde(deserialize_with = "crate::resourcedistribution::texts")]
    binary_data: Texts,
    #[serde(deserialize_with = "crate::resourcedistribution::texts")]
    string_data: Texts,
    #[serde(rename = "type")]
    kind: Option<String>,
    immutable: Option<bool>,
}

impl Content {
    pub(super) fn read(kind: ResourceKind, json: &str) -> Result<Self, serde_json::Error> {
        let stated: Stated = serde_json::from_str(json)?;
        let plain = |texts: Texts| -> Texts {
            // Kubernetes reads Base64 that is broken into lines.
            texts.into_iter().map(|(key, text)| (key, text.replace(['\r', '\n'], ""))).collect()
        };
        Ok(match kind {
            ResourceKind::ConfigMap => Self {
                data: stated.data,
                binary_data: plain(stated.binary_data),
                kind: None,
                immutable: stated.immutable,
            },
            ResourceKind::Secret => {
                let mut data = plain(stated.data);
                data.extend(stated.string_data.into_iter().map(|(key, text)| (key, STANDARD.encode(text))));
                let kind = stated.kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| OPAQUE.to_owned());
                Self { data, binary_data: Texts::new(), kind: Some(kind), immutable: stated.immutable }
            }
        })
    }

    /// The members of a strategic merge patch that make `found` equal to this content.
    pub(super) fn patch(&self, found: &Self) -> Map<String, Value> {
        let mut patch = Map::new();
        for (member, wanted, found) in
            [("data", &self.data, &found.data), ("binaryData", &self.binary_data, &found.binary_data)]
        {
            let changes = changes(wanted, found, found.keys());
            if !changes.is_empty() {
                patch.insert(member.to_owned(), changes.into());
            }
        }
        if self.kind != found.kind {
            patch.insert("type".to_owned(), self.kind.clone().into());
        }
        if self.immutable != found.immutable {
            patch.insert("immutable".to_owned(), self.immutable.into());
        }
        patch
    }
}
