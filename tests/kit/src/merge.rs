//! Patches on JSON values.

use serde_json::{Map, Value};

/// Merges a patch as the API server does with a strategic merge patch of the kinds that tests use: null
/// removes a field, objects are merged, items of a list are merged with those of their `name` and `type`
/// and else appended, any other value replaces what was there.
pub fn strategic_merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(patch) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            for (key, value) in patch {
                if value.is_null() {
                    target.as_object_mut().expect("an object was just made").remove(&key);
                } else {
                    strategic_merge(&mut target[key], value);
                }
            }
        }
        Value::Array(patch) if patch.iter().all(Value::is_object) => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            let list = target.as_array_mut().expect("a list was just made");
            for item in patch {
                let same =
                    |known: &&mut Value| known["name"] == item["name"] && known["type"] == item["type"];
                match list.iter_mut().find(same) {
                    Some(known) => strategic_merge(known, item),
                    None => {
                        let mut new = Value::Null;
                        strategic_merge(&mut new, item);
                        list.push(new);
                    }
                }
            }
        }
        other => *target = other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_and_named_items_are_merged_and_null_removes() {
        let mut pod = json!({
            "metadata": {"labels": {"app": "web", "tier": "front"}},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Starting"}]},
        });
        let patch = json!({
            "metadata": {"labels": {"tier": null, "zone": "a"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": null}, {"type": "Initialized", "status": "True", "reason": null},
            ]},
        });
        strategic_merge(&mut pod, patch);
        let merged = json!({
            "metadata": {"labels": {"app": "web", "zone": "a"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"},
            ]},
        });
        assert_eq!(pod, merged);
    }
}
