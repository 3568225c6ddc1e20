//! Members of JSON objects whose keys may be in any case: earlier releases wrote keys as Go spells its fields, and so
//! do users.

use serde_json::{Map, Value};

/// The object that a value is.
///
/// # Errors
/// It is none.
pub fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{value} is not an object"))
}

/// A member whatever its key's case; `None` where there is none, or `null`.
pub fn member<'v>(members: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let found = members
        .get(name)
        .or_else(|| members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    found.filter(|value| !value.is_null())
}

/// The elements of a list; none where there is no such member.
///
/// # Errors
/// The member is no list.
pub fn elements<'v>(members: &'v Map<String, Value>, name: &str) -> Result<&'v [Value], String> {
    match member(members, name) {
        None => Ok(&[]),
        Some(Value::Array(elements)) => Ok(elements),
        Some(_) => Err(format!("{name} is not a list")),
    }
}

/// A text; empty where there is no such member.
///
/// # Errors
/// The member is no text.
pub fn text(members: &Map<String, Value>, name: &str) -> Result<String, String> {
    match member(members, name) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("{name} is not a text")),
    }
}
