//! Whether an object is as it is to be.

use serde_json::Value;

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
    fn what_the_api_server_adds_or_drops_is_no_difference() {
        let wanted = json!({"rules": [{"name": "a", "filters": []}], "empty": {}});
        assert!(covers(&json!({"rules": [{"name": "a", "weight": 1}], "other": 1}), &wanted));
        assert!(!covers(&json!({"rules": [{"name": "b"}]}), &wanted));
        assert!(!covers(&json!({"rules": [{"name": "a"}, {"name": "b"}]}), &wanted));
        assert!(!covers(&json!({}), &wanted));
    }
}
