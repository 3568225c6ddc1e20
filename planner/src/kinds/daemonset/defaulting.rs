//! What the API server stores for a DaemonSet where its author said nothing
//! (docs/behaviour/daemonset.md#defaulting), as a patch of the object that was sent, in its version. The template stays
//! as it was written.

use serde_json::Value;

use super::validation::leaves_unreadable_spec;
use crate::pod::template::place::Place;
use crate::text::json_patch::{Patch, Pointer};
use crate::text::verdict::Denial;

/// The operations that complete `object`, a DaemonSet in v1alpha1 or v1beta1; `version` is the version of the
/// request, `old` the stored object of an update.
///
/// # Errors
/// Code 400 for an object that is not a DaemonSet of a known version.
pub fn default(object: &str, old: Option<&str>, version: &str) -> Result<Patch, Denial> {
    let refused = |message: String| Denial { code: 400, message };
    if !matches!(version, "v1alpha1" | "v1beta1") {
        return Err(refused(format!("unsupported version: {version}")));
    }
    let value: Value = serde_json::from_str(object).map_err(|error| refused(error.to_string()))?;
    if !value.is_object() {
        return Err(refused("a DaemonSet must be a JSON object".to_owned()));
    }
    let mut patch = Patch::default();
    if leaves_unreadable_spec(object, old) {
        return Ok(patch);
    }
    let root = Place::new(&value, Pointer::root());
    let Some(spec) = root.child("spec") else { return Ok(patch) };
    spec.default_json("burstReplicas", "250", &mut patch);
    spec.default_json("revisionHistoryLimit", "10", &mut patch);
    let Some(strategy) = spec.child_or_new("updateStrategy", &mut patch) else { return Ok(patch) };
    strategy.default_text("type", "RollingUpdate", &mut patch);
    if matches!(strategy.text("type"), "" | "RollingUpdate")
        && let Some(rolling) = strategy.child_or_new("rollingUpdate", &mut patch)
    {
        default_rolling(&rolling, version, &mut patch);
    }
    Ok(patch)
}

fn default_rolling(rolling: &Place<'_>, version: &str, patch: &mut Patch) {
    if version == "v1alpha1" && rolling.text("rollingUpdateType") == "Surging" {
        // An older name for starting the new Pod first.
        patch.replace(rolling.pointer("rollingUpdateType"), r#""Standard""#);
        rolling.default_json("maxSurge", "1", patch);
        rolling.default_json("maxUnavailable", "0", patch);
        return;
    }
    rolling.default_text("rollingUpdateType", "Standard", patch);
    let is_unset = |name| rolling.get(name).is_none();
    if is_unset("maxUnavailable") && is_unset("maxSurge") {
        rolling.default_json("maxUnavailable", "1", patch);
        rolling.default_json("maxSurge", "0", patch);
    }
}
