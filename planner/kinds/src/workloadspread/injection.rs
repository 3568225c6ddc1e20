//! What a subset does to a new Pod (docs/behaviour/workloadspread.md#what-a-pod-gets).

use api::annotations::MATCHED_WORKLOADSPREAD;
use api::kinds::workloadspread::Subset;
use api::raw_object::{RawNode, RawObject};
use thiserror::Error;

use super::record::Matched;
use pod::placement::{add_required_term, append, taken};
use values::canonical::table;
use values::json_patch::{Patch, edits};
use values::strategic_merge::{self, MergeError};

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Why a Pod can't be put into a subset.
#[derive(Debug, Error)]
pub enum InjectionError {
    #[error("the Pod is not an object: {0}")]
    Pod(serde_json::Error),
    #[error("spec.subsets of {subset:?}: {what} is not understood")]
    Field { subset: String, what: &'static str },
    #[error("failed to merge patch of subset {subset:?}: {source}")]
    Patch { subset: String, source: MergeError },
}

/// The Pod as a member of the subset, and the operations that make it one: with the subset's tolerations and node
/// affinity, then its patch, then the annotation.
pub(crate) fn inject(
    pod: &str,
    subset: &Subset,
    matched: &Matched,
) -> Result<(String, Patch), InjectionError> {
    let mut object = RawObject::parse(pod).map_err(InjectionError::Pod)?;
    let mut spec = object.remove("spec").and_then(RawNode::into_object).unwrap_or_default();
    let class = spec.string("priorityClassName");
    let odd = |what| InjectionError::Field { subset: subset.name.clone(), what };
    add_placement(&mut spec, subset).map_err(odd)?;
    object.insert("spec", spec.into());
    let text = match &subset.patch {
        Some(patch) if !patch.is_null() => {
            strategic_merge::merge(&object.to_string(), patch.get(), &table::POD_TEMPLATE_SPEC)
                .map_err(|source| InjectionError::Patch { subset: subset.name.clone(), source })?
        }
        _ => object.to_string(),
    };
    let mut merged = RawObject::parse(&text).map_err(InjectionError::Pod)?;
    merged.edit_object("spec", |spec| {
        if spec.string("priorityClassName") != class {
            // They follow from the class: Kubernetes fills them in anew, and refuses those of another class.
            spec.remove("priority");
            spec.remove("preemptionPolicy");
        }
    });
    merged.edit_object("metadata", |metadata| {
        metadata.edit_object("annotations", |annotations| {
            annotations.insert(MATCHED_WORKLOADSPREAD, RawNode::string(&matched.to_json()));
        });
    });
    let merged = merged.to_string();
    let edits = edits(pod, &merged).map_err(InjectionError::Pod)?;
    Ok((merged, edits))
}

/// Appends tolerations, preferred terms and the required term. `affinity.nodeAffinity` is there afterwards even if
/// it is empty: clients read it.
fn add_placement<'a>(spec: &mut RawObject<'a>, subset: &'a Subset) -> Result<(), &'static str> {
    append(spec, "tolerations", subset.tolerations.iter().map(|raw| RawNode::from_raw(raw.as_raw_value())));
    let mut affinity = taken(spec, "affinity");
    let mut nodes = taken(&mut affinity, "nodeAffinity");
    let preferred = subset.preferred_node_selector.iter().map(|raw| RawNode::from_raw(raw.as_raw_value()));
    append(&mut nodes, PREFERRED, preferred);
    if let Some(raw) = &subset.required_node_selector {
        add_required_term(&mut nodes, raw).ok_or("requiredNodeSelector")?;
    }
    affinity.insert("nodeAffinity", nodes.into());
    spec.insert("affinity", affinity.into());
    Ok(())
}

#[cfg(test)]
mod tests;
