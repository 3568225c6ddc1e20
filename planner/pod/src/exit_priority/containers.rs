//! The containers of a Pod, read from the raw object and edited in it.

use api::raw_object::{RawNode, RawObject};
use serde_json::Value;
use serde_json::value::to_raw_value;

use crate::review::draft::not_a_pod;
use values::verdict::Denial;

/// The raw containers of a list, each an object.
pub(super) fn take<'a>(spec: &mut RawObject<'a>, list: &str) -> Result<Vec<RawObject<'a>>, Denial> {
    let wrong = || not_a_pod(&format_args!("spec.{list} is no list of objects"));
    let Some(node) = spec.remove(list).filter(|node| !node.is_literal("null")) else { return Ok(Vec::new()) };
    let nodes = node.into_array().ok_or_else(wrong)?;
    nodes.into_iter().map(|node| node.into_object().ok_or_else(wrong)).collect()
}

/// Puts a list back; an empty one is left out.
pub(super) fn put<'a>(spec: &mut RawObject<'a>, list: &str, containers: Vec<RawObject<'a>>) {
    if !containers.is_empty() {
        spec.insert(list, RawNode::array(containers.into_iter().map(RawNode::from).collect()));
    }
}

/// Whether the element has this name.
pub(super) fn is_named(object: &RawObject<'_>, name: &str) -> bool {
    object.string("name").as_deref() == Some(name)
}

/// The name of a container.
pub(super) fn name(container: &RawObject<'_>) -> String {
    container.string("name").unwrap_or_default()
}

/// An init container that runs beside the others.
pub(super) fn is_native(container: &RawObject<'_>) -> bool {
    container.string("restartPolicy").as_deref() == Some("Always")
}

/// A member of an object, read as a whole.
pub(super) fn value(object: &RawObject<'_>, key: &str) -> Value {
    object.get(key).and_then(|node| serde_json::from_str(&node.to_string()).ok()).unwrap_or_default()
}

/// JSON of ours.
pub(super) fn node(value: &Value) -> Result<RawNode<'static>, Denial> {
    to_raw_value(value).map(RawNode::from_owned_raw).map_err(|error| not_a_pod(&error))
}

/// Appends an element to a list of an object, which may be absent.
pub(super) fn append<'a>(object: &mut RawObject<'a>, list: &str, element: RawNode<'a>) {
    match object.array_mut(list) {
        Some(elements) => elements.push(element),
        None => object.insert(list, RawNode::array(vec![element])),
    }
}

/// Removes the elements of this name from a list of an object, and the list where nothing else is in it.
pub(super) fn remove(object: &mut RawObject<'_>, list: &str, name: &str) {
    let Some(elements) = object.array_mut(list) else { return };
    let before = elements.len();
    elements.retain_mut(|element| element.as_object_mut().is_none_or(|element| !is_named(element, name)));
    if elements.is_empty() && before > 0 {
        object.remove(list);
    }
}
