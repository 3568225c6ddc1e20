//! What a ControllerRevision of a SidecarSet holds, what it is called, and whether it means the same as
//! what is wanted now (spec 20 §5, spec 30 §2). OpenKruise's revisions hold only the fields its Go types
//! know; ours hold the unknown ones too, so a restore loses nothing. Where there are none, both are
//! the same bytes.

use std::collections::BTreeMap;

use api::Raw;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::canonical::{CanonicalError, Kind, Numbers, Unknown, canonical_json, sorted_json, table};
use crate::text::hash::{SIDECARS, fnv1_32, safe_encode};

pub(crate) mod object;
pub mod workload;

/// The longest part of an owner's name that a revision's name begins with, in bytes.
const MAX_OWNER_NAME: usize = 223;

/// The fields of a SidecarSet's spec that its revisions hold, sorted.
const SIDECARSET_FIELDS: [(&str, Kind); 5] = [
    ("containers", SIDECARS),
    ("imagePullSecrets", Kind::List(&Kind::Struct(&table::LOCAL_OBJECT_REFERENCE))),
    ("initContainers", SIDECARS),
    ("patchPodMetadata", Kind::List(&Kind::Struct(&table::SIDECAR_SET_PATCH_POD_METADATA))),
    ("volumes", Kind::List(&Kind::Struct(&table::VOLUME))),
];

/// Who wrote a stored revision: ours carry a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// This product: unknown fields are in the data and count.
    Kutter,
    /// OpenKruise: unknown fields are not in the data and do not count.
    OpenKruise,
}

/// The data of a revision of a SidecarSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarSetRevision {
    data: String,
    projection: String,
}

impl SidecarSetRevision {
    /// The revision of a SidecarSet's `spec`, which must be defaulted already.
    ///
    /// # Errors
    /// The path and the problem, where a field does not decode into its Go type.
    pub fn of_spec(spec: &str) -> Result<Self, CanonicalError> {
        let spec: BTreeMap<String, &RawValue> = serde_json::from_str(spec)?;
        Ok(Self {
            data: sorted_json(&patch(&spec, Unknown::Keep)?, Numbers::Exact)?,
            projection: sorted_json(&patch(&spec, Unknown::Drop)?, Numbers::Double)?,
        })
    }

    /// What to store: compact JSON with sorted keys.
    pub fn data(&self) -> &str {
        &self.data
    }

    /// The label `controller.kubernetes.io/hash` and the end of the name. It is made from the bytes
    /// that OpenKruise would store, so it names the same revision.
    pub fn hash(&self, collision_count: i32) -> String {
        let digits = collision_count.to_string();
        safe_encode(&fnv1_32(self.projection.bytes().chain(digits.bytes())).to_string())
    }

    /// The name of the ControllerRevision.
    pub fn name(&self, sidecarset: &str, collision_count: i32) -> String {
        let owner = sidecarset.get(..MAX_OWNER_NAME).unwrap_or(sidecarset);
        format!("{owner}-{}", self.hash(collision_count))
    }

    /// True if stored data means the same as this revision. Data that cannot be read means nothing.
    pub fn means_the_same_as(&self, stored: &str, author: Author) -> bool {
        if stored == self.data {
            return true;
        }
        let stored = restored_spec(stored).and_then(|spec| Self::of_spec(spec.get()));
        stored.is_ok_and(|stored| match author {
            Author::Kutter => stored.data == self.data,
            Author::OpenKruise => stored.projection == self.projection,
        })
    }
}

/// The spec that stored data restores: its fields replace the whole spec of the live object, so all
/// others become empty.
///
/// # Errors
/// Where the data is not a patch of a spec.
pub fn restored_spec(data: &str) -> Result<Raw, CanonicalError> {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        spec: BTreeMap<&'a str, &'a RawValue>,
    }
    let mut spec = serde_json::from_str::<Data<'_>>(data)?.spec;
    spec.retain(|name, value| *name != "$patch" && value.get() != "null");
    Ok(Raw::parse(serde_json::to_string(&spec)?)?)
}

/// The strategic merge patch that sets the fields; an absent or empty one is `null`.
fn patch(spec: &BTreeMap<String, &RawValue>, unknown: Unknown) -> Result<String, CanonicalError> {
    let mut patch = r#"{"spec":{"$patch":"replace""#.to_owned();
    for (name, kind) in &SIDECARSET_FIELDS {
        let json = spec.get(*name).map_or("null", |value| value.get());
        let value = canonical_json(json, kind, unknown).map_err(|error| error.within(name))?;
        let value = if value == "[]" { "null" } else { &value };
        patch.push_str(&format!(r#","{name}":{value}"#));
    }
    patch.push_str("}}");
    Ok(patch)
}

#[cfg(test)]
mod tests;
