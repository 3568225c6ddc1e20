//! Advanced StatefulSet (docs/behaviour/api-and-registration.md#conversion-of-statefulset).

use crate::raw_object::RawObject;

/// What v1alpha1 does not have.
const SPEC_FIELDS: [&str; 6] = [
    "lifecycle",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "reserveOrdinals",
    "scaleStrategy",
    "volumeClaimUpdateStrategy",
];
const STATUS_FIELDS: [&str; 3] = ["updatedReadyReplicas", "updatedAvailableReplicas", "volumeClaims"];

/// The shared fields have one shape. Fields that v1alpha1 does not have mean nothing there, so they start
/// empty in v1beta1 too.
pub(super) fn to_beta(object: &mut RawObject<'_>) {
    to_alpha(object);
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    for (part, fields) in [("spec", SPEC_FIELDS.as_slice()), ("status", STATUS_FIELDS.as_slice())] {
        if let Some(part) = object.object_mut(part) {
            for field in fields {
                part.remove(field);
            }
        }
    }
}
