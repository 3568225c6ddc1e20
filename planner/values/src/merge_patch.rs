//! JSON merge patch (RFC 7386): applied to text, where what the patch does not touch keeps its spelling, and made from two
//! values.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::json_patch::write_string;

/// How deep objects may nest in a patch.
const MAX_DEPTH: usize = 100;

/// Merges `patch` into `target`. The result is compact; the keys of merged objects are sorted.
///
/// # Errors
/// What is wrong, where one of both is not JSON or has a key that is no text.
pub fn merge_patch(target: &str, patch: &str) -> Result<String, String> {
    let target: &RawValue =
        serde_json::from_str(target).map_err(|error| format!("the present value is not JSON: {error}"))?;
    let patch: &RawValue =
        serde_json::from_str(patch).map_err(|error| format!("the patch is not JSON: {error}"))?;
    let mut merged = String::new();
    write_merged(&mut merged, Some(target), patch, 0)?;
    Ok(merged)
}

/// The merge patch from one value to another: of objects only the members that differ, `null` for those that go.
pub fn difference(present: &Value, wanted: &Value) -> Value {
    let (Value::Object(present), Value::Object(wanted)) = (present, wanted) else { return wanted.clone() };
    let differing = wanted.iter().filter(|(name, value)| present.get(*name) != Some(value));
    let changed = differing.map(|(name, value)| {
        (name.clone(), present.get(name).map_or_else(|| value.clone(), |old| difference(old, value)))
    });
    let gone =
        present.keys().filter(|name| !wanted.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    Value::Object(changed.chain(gone).collect())
}

fn write_merged(
    json: &mut String,
    target: Option<&RawValue>,
    patch: &RawValue,
    depth: usize,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("the patch nests too deeply".to_owned());
    }
    let Some(patch) = members(patch)? else {
        write_compact(json, patch.get());
        return Ok(());
    };
    let mut target = target.map(members).transpose()?.flatten().unwrap_or_default();
    let mut patched = BTreeMap::new();
    for (key, value) in patch {
        let present = target.remove(&key);
        if value.get() != "null" {
            patched.insert(key, (present, value));
        }
    }
    json.push('{');
    let mut first = true;
    let untouched = target.into_iter().map(|(key, value)| (key, (Some(value), None)));
    let patched = patched.into_iter().map(|(key, (present, value))| (key, (present, Some(value))));
    let all: BTreeMap<_, _> = untouched.chain(patched).collect();
    for (key, (present, value)) in all {
        if !std::mem::take(&mut first) {
            json.push(',');
        }
        write_string(json, &key);
        json.push(':');
        match (present, value) {
            (present, Some(value)) => write_merged(json, present, value, depth + 1)?,
            (present, None) => write_compact(json, present.map_or("null", RawValue::get)),
        }
    }
    json.push('}');
    Ok(())
}

/// The members of an object; `None` for every other value. An error where a key is no text, as with half
/// of a surrogate pair: what it holds would be lost.
fn members(value: &RawValue) -> Result<Option<BTreeMap<String, &RawValue>>, String> {
    let text = value.get();
    if !text.starts_with('{') {
        return Ok(None);
    }
    serde_json::from_str(text).map(Some).map_err(|error| error.to_string())
}

/// Appends JSON text without the space between its tokens.
fn write_compact(json: &mut String, text: &str) {
    let (mut in_string, mut escaped) = (false, false);
    for character in text.chars() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if matches!(character, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            in_string = character == '"';
        }
        json.push(character);
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
    fn examples_of_the_rfc() {
        for (target, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"["a","b"]"#, r#"["c", "d"]"#, r#"["c","d"]"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (
                r#"{"main": 2.50, "x": "a \" b"}"#,
                r#"{"log-agent": 1}"#,
                r#"{"log-agent":1,"main":2.50,"x":"a \" b"}"#,
            ),
        ] {
            assert_eq!(merge_patch(target, patch).as_deref(), Ok(expected), "{target} + {patch}");
        }
    }

    #[test]
    fn an_object_with_a_key_that_is_no_text_is_refused_and_not_dropped() {
        let half = r#"{"kept":1,"\ud800":2}"#;
        assert!(merge_patch(half, r#"{"a":1}"#).is_err());
        assert!(merge_patch("{}", half).is_err());
        assert!(merge_patch(&format!(r#"{{"in":{half}}}"#), r#"{"in":{"a":1}}"#).is_err());
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        assert!(merge_patch("oops", "{}").is_err());
        assert!(merge_patch("{}", "oops").is_err());
        let deep = format!("{}1{}", r#"{"a":"#.repeat(1000), "}".repeat(1000));
        assert!(merge_patch("{}", &deep).is_err());
    }
}
