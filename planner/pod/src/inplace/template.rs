//! What two templates differ in, and whether a running Pod can take it
//! (docs/behaviour/in-place-update.md#what-can-change-in-place).

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::observed::{Pairs, Resources};

/// A Pod template, read for comparison. Nothing is written from it.
#[derive(Clone, Debug)]
pub struct Template {
    /// With every field; absent where OpenKruise recorded the template, which drops what it does not know.
    whole: Option<Value>,
    /// With the fields that OpenKruise knows.
    known: Value,
}

impl Template {
    /// The template inside the data of a revision: `known` has the fields that OpenKruise knows, and `whole`
    /// every field, where they were recorded.
    ///
    /// # Errors
    /// Data that is no JSON.
    pub fn of_data(whole: Option<&str>, known: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { whole: whole.map(template_of).transpose()?, known: template_of(known)? })
    }

    /// The two as they can be compared: with every field if both have them.
    fn comparable<'a>(&'a self, other: &'a Self) -> (&'a Value, &'a Value) {
        match (&self.whole, &other.whole) {
            (Some(one), Some(another)) => (one, another),
            _ => (&self.known, &other.known),
        }
    }

    /// `metadata.labels` or `metadata.annotations`.
    pub(super) fn pairs(&self, field: &str) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.known.get("metadata").and_then(|metadata| metadata.get(field));
        let pairs = pairs.and_then(Value::as_object).into_iter().flatten();
        pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    /// `metadata.finalizers`.
    pub(super) fn finalizers(&self) -> Vec<&str> {
        let finalizers = self.known.get("metadata").and_then(|metadata| metadata.get("finalizers"));
        let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
        finalizers.filter_map(Value::as_str).collect()
    }

    /// Containers and init containers.
    pub(super) fn all_containers(&self) -> impl Iterator<Item = &Value> {
        self.containers("containers").iter().chain(self.containers("initContainers"))
    }

    /// The containers under `field` of the spec.
    pub(super) fn containers(&self, field: &str) -> &[Value] {
        let containers = self.known.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array);
        containers.map(Vec::as_slice).unwrap_or_default()
    }
}

fn template_of(data: &str) -> Result<Value, serde_json::Error> {
    let mut data: Value = serde_json::from_str(data)?;
    Ok(data.pointer_mut("/spec/template").map(Value::take).unwrap_or_default())
}

/// The text member `name` of an object.
pub fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The limits and requests of a container of a template.
pub fn resources(container: &Value) -> Resources {
    let pairs = |list: &str| -> Pairs {
        let pairs = container.get("resources").and_then(|resources| resources.get(list));
        let pairs = pairs.and_then(Value::as_object).into_iter().flatten();
        pairs.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect()
    };
    Resources { limits: pairs("limits"), requests: pairs("requests") }
}

/// What is done to one place of the template (RFC 6902).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Something is there that was not.
    Add,
    /// Something is gone.
    Remove,
    /// Something is there instead of something else.
    Replace,
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace => "replace",
        })
    }
}

/// One difference between two templates.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference<'a> {
    pub(super) operation: Operation,
    /// Where, as a JSON pointer in the template.
    pub(super) path: String,
    /// The new value.
    pub(super) value: &'a Value,
}

/// What differs in the members `spec` and all others but `metadata`, in which everything may change.
/// Objects are compared member by member, lists position by position; `null` is as good as nothing.
pub(super) fn differences<'a>(old: &'a Template, new: &'a Template) -> Vec<Difference<'a>> {
    let (old, new) = old.comparable(new);
    let mut differences = Vec::new();
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return differences };
    compare_members(old, new, "", &mut differences);
    differences.retain(|difference| !difference.path.starts_with("/metadata/"));
    differences
}

fn compare<'a>(old: &'a Value, new: &'a Value, path: String, differences: &mut Vec<Difference<'a>>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => compare_members(old, new, &path, differences),
        (Value::Array(old), Value::Array(new)) => {
            for (index, new) in new.iter().enumerate() {
                let path = format!("{path}/{index}");
                match old.get(index) {
                    Some(old) => compare(old, new, path, differences),
                    None => differences.push(Difference { operation: Operation::Add, path, value: new }),
                }
            }
            for (index, value) in old.iter().enumerate().skip(new.len()) {
                let path = format!("{path}/{index}");
                differences.push(Difference { operation: Operation::Remove, path, value });
            }
        }
        (old, new) if old == new => {}
        (_, value) => differences.push(Difference { operation: Operation::Replace, path, value }),
    }
}

fn compare_members<'a>(
    old: &'a Map<String, Value>,
    new: &'a Map<String, Value>,
    path: &str,
    differences: &mut Vec<Difference<'a>>,
) {
    let at = |name: &str| format!("{path}/{}", escaped(name));
    for (name, new) in new.iter().filter(|(_, value)| !value.is_null()) {
        match old.get(name).filter(|value| !value.is_null()) {
            Some(old) => compare(old, new, at(name), differences),
            None => differences.push(Difference { operation: Operation::Add, path: at(name), value: new }),
        }
    }
    for (name, value) in old.iter().filter(|(_, value)| !value.is_null()) {
        if new.get(name).is_none_or(Value::is_null) {
            differences.push(Difference { operation: Operation::Remove, path: at(name), value });
        }
    }
}

/// A member's name as a part of a JSON pointer.
fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) { name.replace('~', "~0").replace('/', "~1").into() } else { name.into() }
}
