//! What subsets add to where their Pods may go, in the raw spec of a Pod or a template.

use api::Raw;
use api::raw_object::{RawNode, RawObject};

use super::node_fit::Term;

/// Name of the field of an affinity that says what scheduling requires.
pub const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Adds a node selector term to what `affinity.nodeAffinity` requires: its requirements go into every term, or it is the
/// only one. A term without requirements matches no Node at all, and is not meant so. `None` where it can't be read.
pub fn add_required_term<'a>(nodes: &mut RawObject<'a>, raw: &'a Raw) -> Option<()> {
    let term = RawNode::from_raw(raw.as_raw_value());
    let parts = term.clone().into_object()?;
    let read: Term = serde_json::from_str(raw.get()).ok()?;
    if read.is_empty() {
        return Some(());
    }
    let mut required = taken(nodes, REQUIRED);
    let mut terms = required.remove("nodeSelectorTerms").and_then(RawNode::into_array).unwrap_or_default();
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
    Some(())
}

/// The object at `key`, to be put back; an empty one where there is none.
pub fn taken<'a>(parent: &mut RawObject<'a>, key: &str) -> RawObject<'a> {
    let present = parent.get_mut(key).and_then(RawNode::as_object_mut);
    present.map(std::mem::take).unwrap_or_default()
}

/// Appends to the list at `key`.
pub fn append<'a>(parent: &mut RawObject<'a>, key: &str, more: impl IntoIterator<Item = RawNode<'a>>) {
    let mut more = more.into_iter().peekable();
    if more.peek().is_none() {
        return;
    }
    match parent.array_mut(key) {
        Some(present) => present.extend(more),
        None => parent.insert(key, RawNode::array(more.collect())),
    }
}
