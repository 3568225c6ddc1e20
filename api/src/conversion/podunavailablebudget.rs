//! PodUnavailableBudget (docs/behaviour/api-and-registration.md#conversion-of-podunavailablebudget).

use super::metadata;
use crate::annotations::{PUB_PROTECT_OPERATIONS, PUB_PROTECT_TOTAL_REPLICAS};
use crate::raw_object::{RawNode, RawObject};

const OPERATIONS: [&str; 4] = ["DELETE", "UPDATE", "EVICT", "RESIZE"];

/// An annotation that became a field is taken off, so that it neither blocks nor survives later edits of
/// the field; it is back when the object is read as v1alpha1. An annotation that cannot be read stays and
/// sets no field: objects that are stored already have to stay readable. A replicas annotation in an
/// unusual form such as `007` sets the field and stays too, since its text is more than its value.
pub(super) fn to_beta(object: &mut RawObject<'_>) {
    let listed = metadata::annotation(object, PUB_PROTECT_OPERATIONS);
    let operations = listed.as_deref().and_then(operations).unwrap_or_default();
    let text = metadata::annotation(object, PUB_PROTECT_TOTAL_REPLICAS);
    let replicas = text.as_deref().and_then(|text| text.parse::<i32>().ok());
    let Some(spec) = object.object_mut("spec") else {
        return;
    };
    for field in ["protectOperations", "protectTotalReplicas", "ignoredPodSelector"] {
        spec.remove(field);
    }
    if let Some(replicas) = replicas {
        spec.insert("protectTotalReplicas", RawNode::integer(replicas.into()));
    }
    if !operations.is_empty() {
        let operations = operations.iter().map(|operation| RawNode::string(operation)).collect();
        spec.insert("protectOperations", RawNode::array(operations));
        metadata::mirror_annotation(object, PUB_PROTECT_OPERATIONS, None);
    }
    if replicas.is_some_and(|replicas| text == Some(replicas.to_string())) {
        metadata::mirror_annotation(object, PUB_PROTECT_TOTAL_REPLICAS, None);
    }
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    let Some(spec) = object.object_mut("spec") else {
        return;
    };
    spec.remove("ignoredPodSelector");
    let operations = spec.remove("protectOperations").and_then(RawNode::into_array).unwrap_or_default();
    let operations: Vec<String> = operations.iter().filter_map(RawNode::as_string).collect();
    let replicas = spec.remove("protectTotalReplicas").map(|replicas| replicas.to_string());
    let replicas = replicas.filter(|text| text.parse::<i64>().is_ok());
    let operations = (!operations.is_empty()).then(|| operations.join(","));
    metadata::mirror_annotation(object, PUB_PROTECT_OPERATIONS, operations.as_deref());
    metadata::mirror_annotation(object, PUB_PROTECT_TOTAL_REPLICAS, replicas.as_deref());
}

/// The operations that the annotation lists; `None` if one of them does not exist.
fn operations(text: &str) -> Option<Vec<&str>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| OPERATIONS.contains(&item).then_some(item)).collect()
}
