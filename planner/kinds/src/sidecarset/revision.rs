//! What a ControllerRevision of a SidecarSet records.

use std::collections::BTreeMap;

use api::Raw;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::workload::revision::RevisionData;
use values::canonical::{CanonicalError, Kind, Numbers, Unknown, canonical_json, sorted_json, table};
use values::hash::SIDECARS;

/// The fields of a SidecarSet's spec that its revisions hold, sorted.
const SIDECARSET_FIELDS: [(&str, Kind); 5] = [
    ("containers", SIDECARS),
    ("imagePullSecrets", Kind::List(&Kind::Struct(&table::LOCAL_OBJECT_REFERENCE))),
    ("initContainers", SIDECARS),
    ("patchPodMetadata", Kind::List(&Kind::Struct(&table::SIDECAR_SET_PATCH_POD_METADATA))),
    ("volumes", Kind::List(&Kind::Struct(&table::VOLUME))),
];

/// The data for a SidecarSet's `spec`, which must be defaulted already.
///
/// # Errors
/// The path and the problem, where a field does not decode into its Go type.
pub(crate) fn data_of_spec(spec: &str) -> Result<RevisionData, CanonicalError> {
    let spec: BTreeMap<String, &RawValue> = serde_json::from_str(spec)?;
    let data = sorted_json(&patch(&spec, Unknown::Keep)?, Numbers::Exact)?;
    let projection = sorted_json(&patch(&spec, Unknown::Drop)?, Numbers::Double)?;
    Ok(RevisionData::new(data, projection, |stored| data_of_spec(restored_spec(stored)?.get())))
}

/// The spec that stored data restores: its fields replace the whole spec of the live object, so all
/// others become empty.
///
/// # Errors
/// Where the data is not a patch of a spec.
pub(crate) fn restored_spec(data: &str) -> Result<Raw, CanonicalError> {
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
