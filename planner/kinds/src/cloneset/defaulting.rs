//! What the API server stores for a CloneSet where its author said nothing
//! (docs/behaviour/cloneset.md#defaulting), as a patch of the object that was sent, in its version.

use api::features::FeatureGates;
use api::kinds::cloneset::CloneSet;

use crate::workload::submitted::completed_spec;
use pod::template::defaulting::default_templates;
use pod::template::place::Place;
use values::json_patch::Patch;
use values::verdict::Denial;

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
    completed_spec::<CloneSet>(object, old, version, |spec, patch| {
        spec.default_json("replicas", "1", patch);
        spec.default_json("revisionHistoryLimit", "10", patch);
        default_templates(spec, (old, "/spec/template"), gates, patch);
        if let Some(strategy) = spec.child_or_new("updateStrategy", patch) {
            if version == "v1alpha1" {
                strategy.default_text("type", "ReCreate", patch);
                default_rolling(&strategy, strategy.text("type"), patch);
            } else {
                default_beta_strategy(&strategy, patch);
            }
        }
    })
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
    rolling.default_json("maxUnavailable", &values::json_patch::string(MAX_UNAVAILABLE), patch);
    rolling.default_json("maxSurge", "0", patch);
}
