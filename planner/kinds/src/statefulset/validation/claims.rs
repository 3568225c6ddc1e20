//! The claim templates of a StatefulSet (docs/behaviour/statefulset.md#validation).

use api::features::Feature;
use api::kinds::statefulset::ClaimUpdateType;
use serde_json::Value;

use super::{Context, Submitted};
use crate::workload::storage_class::StorageClass;
use values::field::{FieldError, FieldPath};
use values::quantity::Quantity;

const TEMPLATES: &str = "spec.volumeClaimTemplates";

/// Checks what is to become of claims.
pub(super) fn validate_retention(new: &Submitted, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.persistentVolumeClaimRetentionPolicy";
    let Some(policy) = new.given("/spec/persistentVolumeClaimRetentionPolicy") else { return };
    for name in ["whenDeleted", "whenScaled"] {
        let text = policy.get(name).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text, "Retain" | "Delete") {
            let path = FieldPath::new(PATH).child(name);
            errors.push(FieldError::not_supported(path, text, &["Delete", "Retain"]));
        }
    }
}

/// Where claims grow with a rollout, only their size may change, and only where their class lets it. The first
/// problem is reported.
pub(super) fn validate_update(
    new: &Submitted,
    old: &Submitted,
    context: &Context<'_>,
    errors: &mut Vec<FieldError>,
) {
    let kind = new.stored.spec.volume_claim_update_strategy.kind.clone().unwrap_or_default();
    if !context.gates.enabled(Feature::StatefulSetAutoResizePVCGate) || kind == ClaimUpdateType::OnDelete {
        return;
    }
    let templates = |submitted: &Submitted| {
        let list = submitted.given("/spec/volumeClaimTemplates").and_then(Value::as_array).cloned();
        list.unwrap_or_default()
    };
    let (new, old) = (templates(new), templates(old));
    if new.len() != old.len() {
        let message = "volumeClaimTemplate can not be added or deleted when OnRollingUpdate";
        errors.push(FieldError::invalid_value(FieldPath::new(TEMPLATES), new.len(), message));
        return;
    }
    for template in &new {
        let name = name(template);
        let path = FieldPath::new(TEMPLATES).key(name);
        let Some(before) = old.iter().find(|before| self::name(before) == name) else {
            let message = "volumeClaimTemplate name can not be modified";
            errors.push(FieldError::forbidden(path.child("name"), message));
            return;
        };
        if let Some(error) = problem(template, before, &path, context) {
            errors.push(error);
            return;
        }
    }
}

fn name(template: &Value) -> &str {
    template.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn class(template: &Value) -> Option<&str> {
    template.pointer("/spec/storageClassName").and_then(Value::as_str)
}

/// What of a template may not change.
fn problem(new: &Value, old: &Value, path: &FieldPath, context: &Context<'_>) -> Option<FieldError> {
    let modes = |template: &Value| {
        let modes = template.pointer("/spec/accessModes").and_then(Value::as_array).cloned();
        modes.unwrap_or_default()
    };
    let same_class = class(new).zip(class(old)).is_none_or(|(new, old)| new == old);
    if !same_class || modes(new) != modes(old) {
        let message = "volumeClaimTemplate can not be modified when OnRollingUpdate";
        return Some(FieldError::invalid(path.clone(), name(new), message));
    }
    let is_same = ["requests", "limits"].into_iter().all(|part| storage(new, part) == storage(old, part));
    if is_same {
        return None;
    }
    let classes = context.storage_classes?;
    let found: Option<&StorageClass> = match class(new) {
        Some(name) => match classes.named(name) {
            Some(found) => Some(found),
            None => {
                let path = path.child("spec").child("storageClassName");
                return Some(FieldError::invalid(path, name, "can not get sc"));
            }
        },
        None => classes.default_class(),
    };
    let found = found.filter(|class| !class.allows_expansion)?;
    let path = path.child("spec").child("resources").child("requests").child("storage");
    let message = format!("storage class {} does not support volume expansion", found.name);
    Some(FieldError::forbidden(path, message))
}

/// The storage that a template asks for.
fn storage(template: &Value, part: &str) -> Option<Quantity> {
    let given = template.pointer("/spec/resources")?.get(part)?.get("storage")?;
    let text = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
    text.parse().ok()
}
