//! What the API server stores for a StatefulSet where its author said nothing
//! (docs/behaviour/statefulset.md#defaulting), as a patch of the object that was sent, in its version.

use api::features::{Feature, FeatureGates};
use api::kinds::statefulset::StatefulSet;

use crate::workload::submitted::completed_spec;
use pod::template::defaulting::default_templates;
use pod::template::place::Place;
use values::json_patch::Patch;
use values::verdict::Denial;

#[cfg(test)]
mod tests;

/// The operations that complete `object`, a StatefulSet in v1alpha1 or v1beta1; `version` is the version of
/// the request. `old` is the stored object of an update: a template that does not differ from its template
/// stays as it is, so that an upgrade of this program rolls nothing out.
///
/// # Errors
/// Code 400 for an object that is not a StatefulSet of a known version.
pub fn default(
    object: &str,
    old: Option<&str>,
    version: &str,
    gates: &FeatureGates,
) -> Result<Patch, Denial> {
    completed_spec::<StatefulSet>(object, old, version, |spec, patch| {
        spec.default_text("podManagementPolicy", "OrderedReady", patch);
        default_update_strategy(spec, patch);
        if version == "v1beta1" {
            // What v1alpha1 can't say stays unsaid.
            default_claim_policies(spec, gates, patch);
        }
        spec.default_json("replicas", "1", patch);
        spec.default_json("revisionHistoryLimit", "10", patch);
        default_templates(spec, (old, "/spec/template"), gates, patch);
    })
}

fn default_update_strategy(spec: &Place<'_>, patch: &mut Patch) {
    let Some(strategy) = spec.child_or_new("updateStrategy", patch) else { return };
    strategy.default_text("type", "RollingUpdate", patch);
    if !matches!(strategy.text("type"), "" | "RollingUpdate") {
        return;
    }
    if let Some(rolling) = strategy.child_or_new("rollingUpdate", patch) {
        rolling.default_json("partition", "0", patch);
        rolling.default_json("maxUnavailable", "1", patch);
        rolling.default_text("podUpdatePolicy", "ReCreate", patch);
        rolling.default_json("minReadySeconds", "0", patch);
    }
}

fn default_claim_policies(spec: &Place<'_>, gates: &FeatureGates, patch: &mut Patch) {
    if gates.enabled(Feature::StatefulSetAutoDeletePVC)
        && let Some(policy) = spec.child_or_new("persistentVolumeClaimRetentionPolicy", patch)
    {
        policy.default_text("whenDeleted", "Retain", patch);
        policy.default_text("whenScaled", "Retain", patch);
    }
    if gates.enabled(Feature::StatefulSetAutoResizePVCGate)
        && let Some(strategy) = spec.child_or_new("volumeClaimUpdateStrategy", patch)
    {
        strategy.default_text("type", "OnDelete", patch);
    }
}
