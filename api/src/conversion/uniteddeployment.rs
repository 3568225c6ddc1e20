//! UnitedDeployment (docs/behaviour/api-and-registration.md#conversion-of-uniteddeployment).

use std::collections::{BTreeMap, HashMap};

use super::cloneset;
use crate::raw_object::{RawNode, RawObject};

/// The spec of the CloneSets of subsets.
fn clone_set_spec<'o, 'a>(object: &'o mut RawObject<'a>) -> Option<&'o mut RawObject<'a>> {
    let template = object.object_mut("spec")?.object_mut("template")?;
    template.object_mut("cloneSetTemplate")?.object_mut("spec")
}

pub(super) fn to_beta(object: &mut RawObject<'_>) {
    if let Some(spec) = clone_set_spec(object) {
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
    if let Some(spec) = clone_set_spec(object) {
        clone_set_template_to_alpha(spec);
    }
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
/// the nested ones in both versions. The flat shape is converted as in CloneSet itself. Claims are reused there
/// unless it says otherwise; a template that has neither shape is taken for one of a published release.
fn clone_set_template_to_beta(spec: &mut RawObject<'_>) {
    let shape = shape(spec);
    if shape == Shape::Flat {
        cloneset::update_strategy_to_beta(spec, [const { None }; 3]);
    }
    let scale = spec.object_mut("scaleStrategy");
    let disabled = scale.and_then(|scale| scale.remove("disablePVCReuse")).map(|disabled| disabled.is_true());
    // The schema says that claims are not reused where nothing does: that does not count here.
    let enables = disabled.map_or(shape != Shape::Nested, |disabled| !disabled);
    if enables || (disabled.is_some() && shape == Shape::Flat) {
        spec.edit_object("scaleStrategy", |scale| scale.insert("enablePVCReuse", RawNode::boolean(enables)));
    } else if disabled.is_some() {
        spec.remove_empty_object("scaleStrategy");
    }
}

/// The nested shape stays as it is. What is in neither has to say where claims are not reused.
fn clone_set_template_to_alpha(spec: &mut RawObject<'_>) {
    let scale = spec.object_mut("scaleStrategy");
    let enables = scale.is_some_and(|scale| scale.get("enablePVCReuse").is_some_and(RawNode::is_true));
    if shape(spec) != Shape::Nested && !enables {
        spec.edit_object("scaleStrategy", |scale| scale.insert("disablePVCReuse", RawNode::boolean(true)));
    }
}

/// The shape in which the update strategy of a CloneSet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Flat,
    Nested,
    Neither,
}

fn shape(spec: &mut RawObject<'_>) -> Shape {
    let Some(strategy) = spec.object_mut("updateStrategy") else { return Shape::Neither };
    if strategy.get("rollingUpdate").is_some() {
        return Shape::Nested;
    }
    let is_flat = match strategy.string("type").as_deref() {
        Some("ReCreate" | "InPlaceIfPossible" | "InPlaceOnly") => true,
        Some("OnDelete" | "RollingUpdate") => return Shape::Nested,
        _ => cloneset::ROLLING_FIELDS.iter().any(|field| strategy.get(field).is_some()),
    };
    if is_flat { Shape::Flat } else { Shape::Neither }
}
