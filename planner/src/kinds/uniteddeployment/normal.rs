//! Specs of workloads without what says nothing: what defaults and clients with Go's types add
//! (docs/behaviour/uniteddeployment.md#revisions).

use serde_json::{Map, Value};

use crate::text::canonical::{CanonicalError, Kind, Unknown, canonical_json, table};

/// Values that mean the same as none: Go leaves them out where it writes them itself. Numbers that are pointers in its
/// types, such as `revisionHistoryLimit`, mean what they say.
const ZEROS: [&str; 12] = [
    "/paused",
    "/minReadySeconds",
    "/serviceName",
    "/podManagementPolicy",
    "/strategy/type",
    "/updateStrategy/type",
    "/updateStrategy/paused",
    "/updateStrategy/rollingUpdate/paused",
    "/updateStrategy/rollingUpdate/podUpdatePolicy",
    "/scaleStrategy/enablePVCReuse",
    "/scaleStrategy/disablePVCReuse",
    "/scaleStrategy/excludePreparingDelete",
];

/// Removes values of a workload's spec that mean the same as none.
pub(super) fn without_zeros(spec: &mut Value) {
    for pointer in ZEROS {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        let Some(parent) = spec.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
        let is_zero = parent
            .get(name)
            .is_some_and(|value| *value == false || *value == "" || value.as_i64() == Some(0));
        if is_zero {
            parent.remove(name);
        }
    }
}

/// Brings the claims of a workload into their canonical form.
///
/// # Errors
/// The path and the problem, where a field does not decode into its Go type.
pub(super) fn normal_claims(spec: &mut Value, unknown: Unknown) -> Result<(), CanonicalError> {
    let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        *claim = canonical_value(claim, &Kind::Struct(&table::PERSISTENT_VOLUME_CLAIM), unknown)?;
    }
    Ok(())
}

/// A value in the canonical form of its kind.
///
/// # Errors
/// The path and the problem, where a field does not decode into its Go type.
pub(super) fn canonical_value(value: &Value, kind: &Kind, unknown: Unknown) -> Result<Value, CanonicalError> {
    Ok(serde_json::from_str(&canonical_json(&value.to_string(), kind, unknown)?)?)
}

/// Removes nulls, and objects and lists that are empty or become so.
pub(super) fn prune(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(prune);
            members.retain(|_, member| !says_nothing(member));
        }
        Value::Array(elements) => elements.iter_mut().for_each(prune),
        _ => {}
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => Map::is_empty(members),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}
