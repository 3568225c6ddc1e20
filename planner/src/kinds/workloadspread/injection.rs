//! What a subset does to a new Pod (docs/behaviour/workloadspread.md#what-a-pod-gets).

use api::annotations::MATCHED_WORKLOADSPREAD;
use api::kinds::workloadspread::Subset;
use api::raw_object::{RawNode, RawObject};
use thiserror::Error;

use super::record::Matched;
use crate::pod::node_fit::Term;
use crate::text::canonical::table;
use crate::text::json_patch::{Patch, edits};
use crate::text::strategic_merge::{self, MergeError};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Why a Pod can't be put into a subset.
#[derive(Debug, Error)]
pub(crate) enum InjectionError {
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
/// it is empty: clients look at it.
fn add_placement<'a>(spec: &mut RawObject<'a>, subset: &'a Subset) -> Result<(), &'static str> {
    append(spec, "tolerations", subset.tolerations.iter().map(|raw| RawNode::from_raw(raw.as_raw_value())));
    let mut affinity = taken(spec, "affinity");
    let mut nodes = taken(&mut affinity, "nodeAffinity");
    let preferred = subset.preferred_node_selector.iter().map(|raw| RawNode::from_raw(raw.as_raw_value()));
    append(&mut nodes, PREFERRED, preferred);
    if let Some(raw) = &subset.required_node_selector {
        let term = RawNode::from_raw(raw.as_raw_value());
        let parts = term.clone().into_object().ok_or("requiredNodeSelector")?;
        let read: Term = serde_json::from_str(raw.get()).map_err(|_| "requiredNodeSelector")?;
        // A term without requirements matches no Node at all, and is not meant so.
        if !read.is_empty() {
            let mut required = taken(&mut nodes, REQUIRED);
            let mut terms =
                required.remove("nodeSelectorTerms").and_then(RawNode::into_array).unwrap_or_default();
            for known in terms.iter_mut().filter_map(RawNode::as_object_mut) {
                for name in ["matchExpressions", "matchFields"] {
                    let more = parts.get(name).cloned().and_then(RawNode::into_array).unwrap_or_default();
                    append(known, name, more);
                }
            }
            if terms.is_empty() {
                terms.push(term);
            }
            required.insert("nodeSelectorTerms", RawNode::array(terms));
            nodes.insert(REQUIRED, required.into());
        }
    }
    affinity.insert("nodeAffinity", nodes.into());
    spec.insert("affinity", affinity.into());
    Ok(())
}

/// The object at `key`, to be put back; an empty one where there is none.
fn taken<'a>(parent: &mut RawObject<'a>, key: &str) -> RawObject<'a> {
    let present = parent.get_mut(key).and_then(RawNode::as_object_mut);
    present.map(std::mem::take).unwrap_or_default()
}

/// Appends to the list at `key`.
fn append<'a>(parent: &mut RawObject<'a>, key: &str, more: impl IntoIterator<Item = RawNode<'a>>) {
    let mut more = more.into_iter().peekable();
    if more.peek().is_none() {
        return;
    }
    match parent.array_mut(key) {
        Some(present) => present.extend(more),
        None => parent.insert(key, RawNode::array(more.collect())),
    }
}

#[cfg(test)]
mod tests;
