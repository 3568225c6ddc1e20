//! Keeps what users change in an object while a release has changed it too.

use serde_json::{Map, Value};

/// What `ours` becomes with all that was changed from `base` to `user`. Where both changed the same value `ours` holds;
/// `None` is a value that is not there.
pub(super) fn merge(base: Option<&Value>, user: Option<&Value>, ours: Option<&Value>) -> Option<Value> {
    if user == base {
        return ours.cloned();
    }
    if ours == base {
        return user.cloned();
    }
    match (base, user, ours) {
        (_, Some(Value::Object(user)), Some(Value::Object(ours))) => {
            let nothing = Map::new();
            Some(Value::Object(members(base.and_then(Value::as_object).unwrap_or(&nothing), user, ours)))
        }
        (Some(Value::Array(base)), Some(Value::Array(user)), Some(Value::Array(ours))) => {
            Some(Value::Array(items(base, user, ours)))
        }
        _ => ours.cloned(),
    }
}

fn members(
    base: &Map<String, Value>,
    user: &Map<String, Value>,
    ours: &Map<String, Value>,
) -> Map<String, Value> {
    let added = user.keys().filter(|name| !ours.contains_key(*name));
    let merged = |name: &String| Some((name.clone(), merge(base.get(name), user.get(name), ours.get(name))?));
    ours.keys().chain(added).filter_map(merged).collect()
}

/// The list that is ours, in our order, without what the user removed; what the user added stands where it stood.
fn items(base: &[Value], user: &[Value], ours: &[Value]) -> Vec<Value> {
    let (of_user, of_ours) = (pairs(base, user), origins(base, ours));
    // Each item with its place in the user's list.
    let mut merged: Vec<(Option<usize>, Value)> = Vec::new();
    for (position, item) in ours.iter().enumerate() {
        let origin = of_ours.iter().position(|paired| *paired == Some(position));
        let Some(origin) = origin else {
            merged.push((user.iter().position(|added| added == item), item.clone()));
            continue;
        };
        let place = of_user.get(origin).copied().flatten();
        let item = place.and_then(|place| merge(base.get(origin), user.get(place), Some(item)));
        merged.extend(item.map(|item| (place, item)));
    }
    for (position, item) in user.iter().enumerate() {
        let is_known = merged.iter().any(|(place, _)| *place == Some(position));
        if !of_user.contains(&Some(position)) && !is_known {
            let before = |(place, _): &(Option<usize>, Value)| place.is_some_and(|place| place < position);
            let place = merged.iter().rposition(before).map_or(0, |previous| previous.saturating_add(1));
            merged.insert(place, (Some(position), item.clone()));
        }
    }
    merged.into_iter().map(|(_, item)| item).collect()
}

/// Which item of another list each item became: one that is equal, else the one that is most like it.
fn pairs(base: &[Value], other: &[Value]) -> Vec<Option<usize>> {
    let mut pairs = vec![None; base.len()];
    for likeness in [equality as fn(&Value, &Value) -> usize, likeness] {
        for (position, item) in base.iter().enumerate() {
            if pairs.get(position).is_some_and(Option::is_some) {
                continue;
            }
            let free = other.iter().enumerate().filter(|(place, _)| !pairs.contains(&Some(*place)));
            let scored =
                free.map(|(place, other)| (likeness(item, other), place)).filter(|(score, _)| *score > 0);
            // Of equal ones the first.
            let best = scored.min_by_key(|(score, place)| (std::cmp::Reverse(*score), *place));
            if let Some(pair) = pairs.get_mut(position) {
                *pair = best.map(|(_, place)| place);
            }
        }
    }
    pairs
}

/// Which item of ours each item was made from. The release turns items into others in their order, and into as many.
fn origins(base: &[Value], ours: &[Value]) -> Vec<Option<usize>> {
    let mut pairs = pairs(base, ours);
    let free: Vec<usize> = (0..ours.len()).filter(|place| !pairs.contains(&Some(*place))).collect();
    if pairs.iter().filter(|pair| pair.is_none()).count() == free.len() {
        pairs
            .iter_mut()
            .filter(|pair| pair.is_none())
            .zip(free)
            .for_each(|(pair, place)| *pair = Some(place));
    }
    pairs
}

fn equality(one: &Value, other: &Value) -> usize {
    usize::from(one == other)
}

/// How many members are equal, where at least half are. Items with different names are different ones.
fn likeness(one: &Value, other: &Value) -> usize {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return 0 };
    let have_other_names =
        matches!((one.get("name"), other.get("name")), (Some(one), Some(other)) if one != other);
    let equal = one.iter().filter(|(name, value)| other.get(*name) == Some(value)).count();
    if have_other_names || equal.saturating_mul(2) < one.len() { 0 } else { equal }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(base: &Value, user: &Value, ours: &Value) -> Value {
        merge(Some(base), Some(user), Some(ours)).unwrap()
    }

    #[test]
    fn what_only_one_changed_is_as_that_one_has_it() {
        let base = json!({"a": 1, "b": 1, "c": 1, "d": {"x": 1, "y": 1}});
        let user = json!({"a": 2, "b": 1, "d": {"x": 2, "y": 1}, "e": 1});
        let ours = json!({"a": 1, "b": 2, "c": 1, "d": {"x": 1, "y": 2}, "f": 1});
        assert_eq!(
            merged(&base, &user, &ours),
            json!({"a": 2, "b": 2, "d": {"x": 2, "y": 2}, "f": 1, "e": 1})
        );
    }

    #[test]
    fn ours_holds_where_both_changed_the_same() {
        assert_eq!(merged(&json!({"w": 80}), &json!({"w": 70}), &json!({"w": 1})), json!({"w": 1}));
        assert_eq!(merged(&json!({"w": 80}), &json!({}), &json!({"w": 1})), json!({"w": 1}));
    }

    #[test]
    fn items_that_a_user_adds_removes_or_changes_are_kept_so() {
        let (a, b, c) = (json!({"m": "a", "w": 1}), json!({"m": "b", "w": 1}), json!({"m": "c", "w": 1}));
        let a_routed = json!({"m": "a", "w": 80});
        let (base, ours) = (json!([a_routed, b]), json!([a, b]));
        assert_eq!(merged(&base, &json!([a_routed, b, c]), &ours), json!([a, b, c]), "added last");
        assert_eq!(merged(&base, &json!([c, a_routed, b]), &ours), json!([c, a, b]), "added first");
        assert_eq!(merged(&base, &json!([a_routed, c, b]), &ours), json!([a, c, b]), "added between");
        assert_eq!(merged(&base, &json!([b]), &ours), json!([b]), "removed");
        assert_eq!(merged(&base, &json!([b, a_routed]), &ours), json!([a, b]), "moved: nothing is lost");
        let changed = json!({"m": "a", "w": 80, "timeout": 5});
        assert_eq!(merged(&base, &json!([changed, b]), &ours), json!([{"m": "a", "w": 1, "timeout": 5}, b]));
        assert_eq!(
            merged(&base, &json!([c, changed, b]), &ours),
            json!([c, {"m": "a", "w": 1, "timeout": 5}, b])
        );
    }

    #[test]
    fn items_that_the_release_added_go() {
        let (copy, rule) = (json!({"m": "canary", "b": "new"}), json!({"m": "a", "b": "old"}));
        let (base, ours) = (json!([copy, rule]), json!([rule]));
        assert_eq!(merged(&base, &json!([copy, rule, 7]), &ours), json!([rule, 7]));
        let changed_copy = json!({"m": "canary", "b": "new", "timeout": 5});
        assert_eq!(merged(&base, &json!([changed_copy, rule]), &ours), json!([rule]));
    }

    #[test]
    fn an_item_that_the_user_adds_in_place_of_one_that_the_release_added_is_no_change_of_it() {
        let (copy, rule) = (json!({"m": "canary", "b": "new", "t": 5}), json!({"m": "a", "b": "old"}));
        let added = json!({"m": "b", "b": "old", "t": 5});
        assert_eq!(merged(&json!([copy, rule]), &json!([rule, added]), &json!([rule])), json!([rule, added]));
    }

    #[test]
    fn items_that_the_release_made_into_wholly_different_ones_keep_their_order() {
        let (base, ours) = (json!([{"z": 1}, {"z": 2}]), json!([{"a": 1}, {"a": 2}]));
        assert_eq!(merged(&base, &json!([{"z": 1}, {"z": 2}, 7]), &ours), json!([{"a": 1}, {"a": 2}, 7]));
        assert_eq!(merged(&base, &json!([{"z": 1}, 7]), &ours), json!([{"a": 1}, 7]), "one removed");
        let (base, ours) = (json!([{"z": 1}, {"y": 2}]), json!([{"a": 1}]));
        assert_eq!(
            merged(&base, &json!([{"z": 1}, 7]), &ours),
            json!([7, {"a": 1}]),
            "nothing of ours is lost"
        );
    }

    #[test]
    fn an_object_that_the_user_put_back_is_not_doubled() {
        let (routed, rule) = (json!({"z": 1}), json!({"a": 1}));
        assert_eq!(merged(&json!([routed, 1]), &json!([rule, 1, 2]), &json!([rule, 1])), json!([rule, 1, 2]));
    }
}
