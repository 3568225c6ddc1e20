//! What to write so that one JSON value becomes another.

use serde_json::{Map, Value};

/// The JSON merge patch from one value to another: of objects only the members that differ, `null` for those that go.
pub(super) fn difference(present: &Value, wanted: &Value) -> Value {
    let (Value::Object(present), Value::Object(wanted)) = (present, wanted) else { return wanted.clone() };
    let differing = wanted.iter().filter(|(name, value)| present.get(*name) != Some(value));
    let changed = differing.map(|(name, value)| {
        (name.clone(), present.get(name).map_or_else(|| value.clone(), |old| difference(old, value)))
    });
    let gone =
        present.keys().filter(|name| !wanted.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    Value::Object(changed.chain(gone).collect::<Map<_, _>>())
}

/// Everything wanted is there. What the API server has filled in beside it does not count, nor an empty value that it has
/// dropped.
pub(super) fn covers(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => wanted.iter().all(|(name, value)| {
            present.get(name).map_or_else(|| is_empty(value), |present| covers(present, value))
        }),
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len()
                && present.iter().zip(wanted).all(|(present, wanted)| covers(present, wanted))
        }
        _ => present == wanted,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_has_what_differs_and_nothing_else() {
        let present = json!({"same": {"a": 1}, "changed": {"a": 1, "b": 2}, "list": [1], "gone": 1});
        let wanted = json!({"same": {"a": 1}, "changed": {"a": 1, "b": 3}, "list": [1, 2], "new": {"x": 1}});
        let patch = json!({"changed": {"b": 3}, "list": [1, 2], "new": {"x": 1}, "gone": null});
        assert_eq!(difference(&present, &wanted), patch);
        assert_eq!(difference(&present, &present), json!({}));
    }

    #[test]
    fn what_the_api_server_adds_or_drops_is_no_difference() {
        let wanted = json!({"rules": [{"name": "a", "filters": []}], "empty": {}});
        assert!(covers(&json!({"rules": [{"name": "a", "weight": 1}], "other": 1}), &wanted));
        assert!(!covers(&json!({"rules": [{"name": "b"}]}), &wanted));
        assert!(!covers(&json!({"rules": [{"name": "a"}, {"name": "b"}]}), &wanted));
        assert!(!covers(&json!({}), &wanted));
    }
}
