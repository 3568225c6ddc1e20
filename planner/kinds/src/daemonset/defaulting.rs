//! What the API server stores for a DaemonSet where its author said nothing
//! (docs/behaviour/daemonset.md#defaulting), as a patch of the object that was sent, in its version. The template stays
//! as it was written.

use api::kinds::daemonset::DaemonSet;

use crate::workload::submitted::completed_spec;
use pod::template::place::Place;
use values::json_patch::Patch;
use values::verdict::Denial;

/// The operations that complete `object`, a DaemonSet in v1alpha1 or v1beta1; `version` is the version of the
/// request, `old` the stored object of an update.
///
/// # Errors
/// Code 400 for an object that is not a DaemonSet of a known version.
pub fn default(object: &str, old: Option<&str>, version: &str) -> Result<Patch, Denial> {
    completed_spec::<DaemonSet>(object, old, version, |spec, patch| {
        spec.default_json("burstReplicas", "250", patch);
        spec.default_json("revisionHistoryLimit", "10", patch);
        let Some(strategy) = spec.child_or_new("updateStrategy", patch) else { return };
        strategy.default_text("type", "RollingUpdate", patch);
        if matches!(strategy.text("type"), "" | "RollingUpdate")
            && let Some(rolling) = strategy.child_or_new("rollingUpdate", patch)
        {
            default_rolling(&rolling, version, patch);
        }
    })
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
