//! Patches on JSON values.

use serde_json::{Map, Value};

/// Merges a patch as the API server does with a strategic merge patch of the kinds that tests use: null
/// removes a field, objects are merged, items of a list are merged with those of their `name` and `type`
/// and else appended, any other value replaces what was there. Items that a patch names have its order.
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
            let (mut places, mut named, mut new) = (Vec::new(), Vec::new(), Vec::new());
            for item in patch {
                let same = |known: &Value| known["name"] == item["name"] && known["type"] == item["type"];
                let place = list.iter().position(same);
                let mut merged = place.map_or(Value::Null, |place| list[place].clone());
                strategic_merge(&mut merged, item);
                if let Some(place) = place {
                    places.push(place);
                    named.push(merged);
                } else {
                    new.push(merged);
                }
            }
            places.sort_unstable();
            for (place, item) in places.into_iter().zip(named) {
                list[place] = item;
            }
            list.append(&mut new);
        }
        other => *target = other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_stand_in_the_order_of_the_patch() {
        let mut list = json!([{"name": "zz", "a": 1}, {"name": "main"}, {"name": "aa"}]);
        strategic_merge(&mut list, json!([{"name": "aa", "b": 2}, {"name": "zz", "b": 2}, {"name": "new"}]));
        let merged = json!([{"name": "aa", "b": 2}, {"name": "main"}, {"name": "zz", "a": 1, "b": 2}, {"name": "new"}]);
        assert_eq!(list, merged);
    }

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
