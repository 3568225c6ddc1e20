//! Specs of workloads without what says nothing: what defaults and clients with Go's types add
//! (docs/behaviour/uniteddeployment.md#revisions).

use serde_json::{Map, Value};

use super::children::ChildKind;
use values::canonical::Kind::{Bool, Int32, IntOrString, Raw, Struct, Text};
use values::canonical::Presence::{NonEmpty, Optional};
use values::canonical::shape::field;
use values::canonical::{CanonicalError, Kind, Shape, Unknown, canonical_json, table};

/// Values that mean the same as none: Go leaves them out where it writes them itself. Numbers that are pointers in its
/// types, such as `revisionHistoryLimit`, mean what they say.
const ZEROS: [&str; 21] = [
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
    "/lifecycle/preDelete/markPodNotReady",
    "/lifecycle/inPlaceUpdate/markPodNotReady",
    "/lifecycle/preNormal/markPodNotReady",
    "/updateStrategy/inPlaceUpdateStrategy/gracePeriodSeconds",
    "/updateStrategy/rollingUpdate/inPlaceUpdateStrategy/gracePeriodSeconds",
    "/volumeClaimUpdateStrategy/type",
    "/persistentVolumeClaimRetentionPolicy/whenDeleted",
    "/persistentVolumeClaimRetentionPolicy/whenScaled",
    "/ordinals/start",
];

/// What OpenKruise knows of a Deployment's spec. Its Pod template has a canonical form of its own.
pub(super) static DEPLOYMENT: Shape = Shape(&[
    field("replicas", Int32, Optional),
    field("selector", Struct(&table::LABEL_SELECTOR), Optional),
    field("template", Raw, Optional),
    field("strategy", Struct(&DEPLOYMENT_STRATEGY), Optional),
    field("minReadySeconds", Int32, NonEmpty),
    field("revisionHistoryLimit", Int32, Optional),
    field("paused", Bool, NonEmpty),
    field("progressDeadlineSeconds", Int32, Optional),
]);
static DEPLOYMENT_STRATEGY: Shape =
    Shape(&[field("type", Text, NonEmpty), field("rollingUpdate", Struct(&DEPLOYMENT_ROLLING), Optional)]);
static DEPLOYMENT_ROLLING: Shape =
    Shape(&[field("maxUnavailable", IntOrString, Optional), field("maxSurge", IntOrString, Optional)]);

/// What OpenKruise knows of the spec of a StatefulSet of Kubernetes. Its Pod template and its claims have canonical forms of
/// their own.
pub(super) static STATEFUL_SET: Shape = Shape(&[
    field("replicas", Int32, Optional),
    field("selector", Struct(&table::LABEL_SELECTOR), Optional),
    field("template", Raw, Optional),
    field("volumeClaimTemplates", Raw, Optional),
    field("serviceName", Text, NonEmpty),
    field("podManagementPolicy", Text, NonEmpty),
    field("updateStrategy", Struct(&STATEFUL_SET_STRATEGY), Optional),
    field("revisionHistoryLimit", Int32, Optional),
    field("minReadySeconds", Int32, NonEmpty),
    field("persistentVolumeClaimRetentionPolicy", Struct(&RETENTION), Optional),
    field("ordinals", Struct(&ORDINALS), Optional),
]);
static STATEFUL_SET_STRATEGY: Shape =
    Shape(&[field("type", Text, NonEmpty), field("rollingUpdate", Struct(&STATEFUL_SET_ROLLING), Optional)]);
static STATEFUL_SET_ROLLING: Shape =
    Shape(&[field("partition", Int32, Optional), field("maxUnavailable", IntOrString, Optional)]);
static RETENTION: Shape = Shape(&[field("whenDeleted", Text, NonEmpty), field("whenScaled", Text, NonEmpty)]);
static ORDINALS: Shape = Shape(&[field("start", Int32, NonEmpty)]);

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

/// Brings the metadata of a template into its canonical form, and removes from its spec what OpenKruise does not know where
/// `unknown` says so. The API server removes that from CloneSets and StatefulSets of our own group.
///
/// # Errors
/// The path and the problem, where a field does not decode into its Go type.
pub(super) fn normal_members(
    kind: ChildKind,
    child: &mut Value,
    unknown: Unknown,
) -> Result<(), CanonicalError> {
    let spec = match (kind, unknown) {
        (ChildKind::Deployment, Unknown::Drop) => Some(&DEPLOYMENT),
        (ChildKind::StatefulSet, Unknown::Drop) => Some(&STATEFUL_SET),
        _ => None,
    };
    for (member, shape) in [("metadata", Some(&table::OBJECT_META)), ("spec", spec)] {
        let value = child.get_mut(member).filter(|value| !value.is_null());
        if let Some((value, shape)) = value.zip(shape) {
            *value = canonical_value(value, &Struct(shape), unknown).map_err(|error| error.within(member))?;
        }
    }
    Ok(())
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
