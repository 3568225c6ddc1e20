//! UnitedDeployment (docs/behaviour/api-and-registration.md#conversion-of-uniteddeployment).

use std::collections::{BTreeMap, HashMap};

use super::cloneset;
use crate::raw_object::{RawNode, RawObject};

pub(super) fn to_beta(object: &mut RawObject<'_>) {
    let template = object
        .object_mut("spec")
        .and_then(|spec| spec.object_mut("template"))
        .and_then(|template| template.object_mut("cloneSetTemplate"))
        .and_then(|template| template.object_mut("spec"));
    if let Some(spec) = template {
        clone_set_template_to_beta(spec);
    }
    let Some(status) = object.object_mut("status") else {
        return;
    };
    let mut update = status.remove("updateStatus").and_then(RawNode::into_object).unwrap_or_default();
    status.remove("updatedRevision");
    if let Some(revision) = update.remove("updatedRevision").filter(|revision| !revision.is_literal("\"\"")) {
        status.insert("updatedRevision", revision);
    }
    let replicas = status.remove("subsetReplicas").and_then(RawNode::into_object);
    let partitions = update.remove("currentPartitions").and_then(RawNode::into_object);
    let mut subsets = status.array_mut("subsetStatuses").map(std::mem::take).unwrap_or_default();
    for (field, values) in [("replicas", replicas), ("partition", partitions)] {
        merge(&mut subsets, field, values.unwrap_or_default());
    }
    if !subsets.is_empty() {
        status.insert("subsetStatuses", RawNode::array(subsets));
    }
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    let Some(status) = object.object_mut("status") else {
        return;
    };
    status.remove("subsetReplicas");
    status.remove("updateStatus");
    let mut replicas = Vec::new();
    let mut partitions = Vec::new();
    let subsets = status.array_mut("subsetStatuses").into_iter().flatten();
    for subset in subsets.filter_map(RawNode::as_object_mut) {
        let Some(name) = subset.string("name").filter(|name| !name.is_empty()) else {
            continue;
        };
        let value = |field| subset.get(field).cloned().unwrap_or_else(|| RawNode::integer(0));
        replicas.push((name.clone(), value("replicas")));
        partitions.push((name, value("partition")));
    }
    let mut update = RawObject::default();
    if let Some(revision) = status.remove("updatedRevision").filter(|revision| !revision.is_literal("\"\"")) {
        update.insert("updatedRevision", revision);
    }
    if !replicas.is_empty() {
        status.insert("subsetReplicas", RawObject::from_entries(replicas).into());
        update.insert("currentPartitions", RawObject::from_entries(partitions).into());
    }
    if !update.is_empty() {
        status.insert("updateStatus", update.into());
    }
}

/// Sets `field` of the named subsets; subsets that are not listed yet follow at the end, sorted by name. A
/// zero that is not written is not written out.
fn merge<'a>(subsets: &mut Vec<RawNode<'a>>, field: &str, mut values: RawObject<'a>) {
    let mut positions = HashMap::new();
    for (position, subset) in subsets.iter_mut().enumerate() {
        if let Some(name) = subset.as_object_mut().and_then(|subset| subset.string("name")) {
            positions.entry(name).or_insert(position);
        }
    }
    let mut added = BTreeMap::new();
    for (name, value) in values.iter_mut() {
        let listed = positions.get(name).and_then(|position| subsets.get_mut(*position));
        let Some(subset) = listed.and_then(RawNode::as_object_mut) else {
            let entries = vec![("name".to_owned(), RawNode::string(name)), (field.to_owned(), value.clone())];
            added.insert(name.to_owned(), RawObject::from_entries(entries));
            continue;
        };
        if subset.get(field).is_some() || !value.is_literal("0") {
            subset.insert(field, value.clone());
        }
    }
    subsets.extend(added.into_values().map(RawNode::from));
}

/// Published releases have the flat CloneSet strategies in the template of v1alpha1, the newest code has
/// the nested ones in both versions. The flat shape is converted as in CloneSet itself.
fn clone_set_template_to_beta(spec: &mut RawObject<'_>) {
    let kind = spec.object_mut("updateStrategy").and_then(|strategy| strategy.string("type"));
    if matches!(kind.as_deref(), Some("ReCreate" | "InPlaceIfPossible" | "InPlaceOnly")) {
        cloneset::update_strategy_to_beta(spec, [const { None }; 3]);
    }
    if let Some(scale) = spec.object_mut("scaleStrategy")
        && let Some(disabled) = scale.remove("disablePVCReuse")
    {
        scale.insert("enablePVCReuse", RawNode::boolean(!disabled.is_true()));
    }
}
