//! WorkloadSpread (docs/behaviour/api-and-registration.md#conversion-of-workloadspread).

use crate::raw_object::{RawNode, RawObject};

/// Names in v1alpha1 and v1beta1.
const SUBSET_FIELDS: [(&str, &str); 2] = [
    ("requiredNodeSelectorTerm", "requiredNodeSelector"),
    ("preferredNodeSelectorTerms", "preferredNodeSelector"),
];

pub(super) fn to_beta(object: &mut RawObject<'_>) {
    each_subset(object, |subset| {
        for (alpha, beta) in SUBSET_FIELDS {
            subset.rename(alpha, beta);
        }
    });
    let created = object.object_mut("metadata").and_then(|metadata| metadata.string("creationTimestamp"));
    each_condition(object, |condition| {
        condition.remove("observedGeneration");
        if condition.string("reason").is_none_or(|reason| reason.is_empty()) {
            condition.insert("reason", RawNode::string("Unknown"));
        }
        if condition.get("message").is_none() {
            condition.insert("message", RawNode::string(""));
        }
        if let (None, Some(created)) = (condition.string("lastTransitionTime"), &created) {
            condition.insert("lastTransitionTime", RawNode::string(created));
        }
    });
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    each_subset(object, |subset| {
        for (alpha, beta) in SUBSET_FIELDS {
            subset.rename(beta, alpha);
        }
    });
    each_condition(object, |condition| {
        condition.remove("observedGeneration");
    });
}

fn each_subset(object: &mut RawObject<'_>, edit: impl Fn(&mut RawObject<'_>)) {
    let subsets = object.object_mut("spec").and_then(|spec| spec.array_mut("subsets"));
    subsets.into_iter().flatten().filter_map(RawNode::as_object_mut).for_each(edit);
}

/// Conditions are in `subsetStatuses` and in each list of `versionedSubsetStatuses`.
fn each_condition(object: &mut RawObject<'_>, edit: impl Fn(&mut RawObject<'_>)) {
    let edit_list = |subsets: Option<&mut Vec<RawNode<'_>>>| {
        for subset in subsets.into_iter().flatten().filter_map(RawNode::as_object_mut) {
            let conditions = subset.array_mut("conditions");
            conditions.into_iter().flatten().filter_map(RawNode::as_object_mut).for_each(&edit);
        }
    };
    if let Some(status) = object.object_mut("status") {
        edit_list(status.array_mut("subsetStatuses"));
        if let Some(versions) = status.object_mut("versionedSubsetStatuses") {
            versions.iter_mut().for_each(|(_, subsets)| edit_list(subsets.as_array_mut()));
        }
    }
}
