//! Pod templates as OpenKruise's types hold them: what revisions record, and what says whether a template has
//! changed. Nulls and empty members do not count.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use values::canonical::{CanonicalError, Kind, Numbers, Unknown, canonical_json, sorted_json, table};

const TEMPLATE: Kind = Kind::Struct(&table::POD_TEMPLATE_SPEC);
/// The directive of a strategic merge patch, which is no part of a template. `kubectl kruise rollout undo`
/// copies it from revisions into templates.
pub const DIRECTIVE: &str = "$patch";

/// The canonical JSON of a template, with or without fields that OpenKruise does not know.
///
/// # Errors
/// The path and the problem, where a field does not decode into its Go type.
pub fn canonical(template: &str, unknown: Unknown) -> Result<String, CanonicalError> {
    let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(template)?;
    members.remove(DIRECTIVE);
    canonical_json(&serde_json::to_string(&members)?, &TEMPLATE, unknown)
}

/// Both templates say the same. What can't be read is compared as it is written.
pub fn is_same(old: &Value, new: &Value) -> bool {
    match (known(old), known(new)) {
        (Some(old), Some(new)) => old == new,
        _ => old == new,
    }
}

/// A text that is the same for templates that say the same. What can't be read is as it is written.
pub fn normal(template: &Value) -> String {
    known(template).unwrap_or_else(|| template.to_string())
}

fn known(template: &Value) -> Option<String> {
    let canonical = canonical(&template.to_string(), Unknown::Keep).ok()?;
    sorted_json(&canonical, Numbers::Exact).ok()
}
