//! PodUnavailableBudget (spec 51 §2 and edge 2).

use std::num::IntErrorKind;

use super::{ConversionError, metadata};
use crate::annotations::{PUB_PROTECT_OPERATIONS, PUB_PROTECT_TOTAL_REPLICAS};
use crate::raw_object::{RawNode, RawObject};

const OPERATIONS: [&str; 4] = ["DELETE", "UPDATE", "EVICT", "RESIZE"];

/// An annotation that became a field is taken off, so that it neither blocks nor survives later edits of
/// the field; it is back when the object is read as v1alpha1. A replicas annotation in an unusual form such
/// as `007` stays, since validation refuses it by its text.
pub(super) fn to_beta(object: &mut RawObject<'_>) -> Result<(), ConversionError> {
    let operations = operations(metadata::annotation(object, PUB_PROTECT_OPERATIONS))?;
    let text = metadata::annotation(object, PUB_PROTECT_TOTAL_REPLICAS).filter(|text| !text.is_empty());
    let replicas = text.as_deref().map(total_replicas).transpose()?;
    let Some(spec) = object.object_mut("spec") else {
        return Ok(());
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
    Ok(())
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) -> Result<(), ConversionError> {
    let Some(spec) = object.object_mut("spec") else {
        return Ok(());
    };
    spec.remove("ignoredPodSelector");
    let operations = spec.remove("protectOperations").and_then(RawNode::into_array).unwrap_or_default();
    let operations: Vec<String> = operations.iter().filter_map(RawNode::as_string).collect();
    let replicas = spec.remove("protectTotalReplicas").map(|replicas| replicas.to_string());
    let replicas = replicas.filter(|text| text.parse::<i64>().is_ok());
    let operations = (!operations.is_empty()).then(|| operations.join(","));
    metadata::mirror_annotation(object, PUB_PROTECT_OPERATIONS, operations.as_deref());
    metadata::mirror_annotation(object, PUB_PROTECT_TOTAL_REPLICAS, replicas.as_deref());
    Ok(())
}

fn operations(annotation: Option<String>) -> Result<Vec<String>, ConversionError> {
    let text = annotation.unwrap_or_default();
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            if OPERATIONS.contains(&item) {
                return Ok(item.to_owned());
            }
            let value = item.to_owned();
            Err(ConversionError::ProtectOperation { annotation: PUB_PROTECT_OPERATIONS, value })
        })
        .collect()
}

fn total_replicas(text: &str) -> Result<i32, ConversionError> {
    text.parse::<i32>().map_err(|error| ConversionError::ProtectTotalReplicas {
        annotation: PUB_PROTECT_TOTAL_REPLICAS,
        value: text.to_owned(),
        reason: match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        },
    })
}
