//! What the API server stores for a CloneSet where its author said nothing
//! (docs/behaviour/cloneset.md#defaulting), as a patch of the object that was sent, in its version.

use api::features::FeatureGates;
use serde_json::Value;

use super::validation::leaves_unreadable_spec;
use crate::pod::template::defaulting::default_templates;
use crate::pod::template::place::Place;
use crate::text::json_patch::{Patch, Pointer};
use crate::text::verdict::Denial;

#[cfg(test)]
mod tests;

const MAX_UNAVAILABLE: &str = "20%";

/// The operations that complete `object`, a CloneSet in v1alpha1 or v1beta1; `version` is the version of
/// the request. `old` is the stored object of an update: a template that does not differ from its template
/// stays as it is, so that an upgrade of this program rolls nothing out.
///
/// # Errors
/// Code 400 for an object that is not a CloneSet of a known version.
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
        return Err(refused("a CloneSet must be a JSON object".to_owned()));
    }
    let mut patch = Patch::default();
    if leaves_unreadable_spec(object, old) {
        return Ok(patch);
    }
    let root = Place::new(&value, Pointer::root());
    let Some(spec) = root.child("spec") else { return Ok(patch) };
    spec.default_json("replicas", "1", &mut patch);
    spec.default_json("revisionHistoryLimit", "10", &mut patch);
    // A stored object that can't be read has no template to compare with.
    let old: Option<Value> = old.and_then(|old| serde_json::from_str(old).ok());
    let old_template = old.as_ref().and_then(|old| old.pointer("/spec/template"));
    default_templates(&spec, old_template, gates, &mut patch);
    if let Some(strategy) = spec.child_or_new("updateStrategy", &mut patch) {
        if version == "v1alpha1" {
            strategy.default_text("type", "ReCreate", &mut patch);
            default_rolling(&strategy, strategy.text("type"), &mut patch);
        } else {
            default_beta_strategy(&strategy, &mut patch);
        }
    }
    Ok(patch)
}

fn default_beta_strategy(strategy: &Place<'_>, patch: &mut Patch) {
    strategy.default_text("type", "RollingUpdate", patch);
    if !matches!(strategy.text("type"), "" | "RollingUpdate") {
        return;
    }
    if let Some(rolling) = strategy.child_or_new("rollingUpdate", patch) {
        rolling.default_text("podUpdatePolicy", "ReCreate", patch);
        default_rolling(&rolling, rolling.text("podUpdatePolicy"), patch);
    }
}

/// The fields that both versions have, below other parents.
fn default_rolling(rolling: &Place<'_>, policy: &str, patch: &mut Patch) {
    if matches!(policy, "InPlaceIfPossible" | "InPlaceOnly") {
        rolling.default_json("inPlaceUpdateStrategy", "{}", patch);
    }
    rolling.default_json("partition", "0", patch);
    rolling.default_json("maxUnavailable", &crate::text::json_patch::string(MAX_UNAVAILABLE), patch);
    rolling.default_json("maxSurge", "0", patch);
}
