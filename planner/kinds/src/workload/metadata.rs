//! Merge patches of an object's metadata that hold only for the state of the object that was observed.

use api::kinds::ObjectMeta;
use serde_json::{Map, Value, json};

/// The patch that sets these members.
pub(crate) fn patch(looked_at: &ObjectMeta, mut members: Map<String, Value>) -> String {
    members.insert("uid".to_owned(), json!(looked_at.uid));
    members.insert("resourceVersion".to_owned(), json!(looked_at.resource_version));
    json!({"metadata": members}).to_string()
}

/// The members that put a finalizer on the object, or take it off.
pub(crate) fn finalizers(looked_at: &ObjectMeta, finalizer: &str, is_set: bool) -> Map<String, Value> {
    let others = looked_at.finalizers.iter().map(String::as_str).filter(|known| *known != finalizer);
    let all: Value = others.chain(is_set.then_some(finalizer)).collect();
    Map::from_iter([("finalizers".to_owned(), all)])
}
