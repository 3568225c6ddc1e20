//! What the API server stores for a BroadcastJob where its author said nothing
//! (docs/behaviour/broadcastjob.md#defaulting), as a patch of the object that was sent.

use api::features::FeatureGates;
use api::kinds::broadcastjob::BroadcastJob;

use crate::workload::submitted::completed_spec;
use pod::template::defaulting::default_templates;
use values::json_patch::Patch;
use values::verdict::Denial;

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
    completed_spec::<BroadcastJob>(object, old, version, |spec, patch| {
        default_templates(spec, (old, "/spec/template"), gates, patch);
        if let Some(policy) = spec.child_or_new("completionPolicy", patch) {
            policy.default_text("type", "Always", patch);
        }
        spec.default_json("parallelism", "2147483647", patch);
        if let Some(policy) = spec.child_or_new("failurePolicy", patch) {
            policy.default_text("type", "FailFast", patch);
        }
    })
}
