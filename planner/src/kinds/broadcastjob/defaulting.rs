//! What the API server stores for a BroadcastJob where its author said nothing
//! (docs/behaviour/broadcastjob.md#defaulting), as a patch of the object that was sent.

use api::features::FeatureGates;
use serde_json::Value;

use super::validation::leaves_unreadable_spec;
use crate::pod::template::defaulting::default_templates;
use crate::pod::template::place::Place;
use crate::text::json_patch::{Patch, Pointer};
use crate::text::verdict::Denial;

/// The operations that complete `object`, a BroadcastJob in v1alpha1 or v1beta1. `old` is the stored object of an
/// update: a template that does not differ from its template stays as it is.
///
/// # Errors
/// Code 400 for an object that is not a BroadcastJob of a known version.
pub fn default(
    object: &str,
    old: Option<&str>,
    version: &str,
    gates: &FeatureGates,
) -> Result<Patch, Denial> {
    let refused = |message: String| Denial { code: 400, message };
    if !matches!(version, "v1alpha1" | "v1beta1") {
        return Err(refused(format!("unsupported version: {version}")));
    }
    let value: Value = serde_json::from_str(object).map_err(|error| refused(error.to_string()))?;
    if !value.is_object() {
        return Err(refused("a BroadcastJob must be a JSON object".to_owned()));
    }
    let mut patch = Patch::default();
    if leaves_unreadable_spec(object, old) {
        return Ok(patch);
    }
    let root = Place::new(&value, Pointer::root());
    let Some(spec) = root.child("spec") else { return Ok(patch) };
    // A stored object that can't be read has no template to compare with.
    let old: Option<Value> = old.and_then(|old| serde_json::from_str(old).ok());
    let old_template = old.as_ref().and_then(|old| old.pointer("/spec/template"));
    default_templates(&spec, old_template, gates, &mut patch);
    if let Some(policy) = spec.child_or_new("completionPolicy", &mut patch) {
        policy.default_text("type", "Always", &mut patch);
    }
    spec.default_json("parallelism", "2147483647", &mut patch);
    if let Some(policy) = spec.child_or_new("failurePolicy", &mut patch) {
        policy.default_text("type", "FailFast", &mut patch);
    }
    Ok(patch)
}
