//! Reading a JSON value whose types may be wrong: what has another type reads as absent, and
//! [`check_types`] says what has the wrong type.

use serde_json::Value;

use values::canonical::Kind;
use values::field::{FieldError, FieldPath};
use values::quantity::Quantity;
use values::short::abridged;

/// A value and where it is.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    value: &'a Value,
    path: FieldPath,
}

impl<'a> Node<'a> {
    /// A value that is at `path`.
    pub fn new(value: &'a Value, path: FieldPath) -> Self {
        Self { value, path }
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// The path of this value.
    pub fn path(&self) -> FieldPath {
        self.path.clone()
    }

    /// The path of a member, present or not.
    pub fn at(&self, name: &str) -> FieldPath {
        self.path.child(name)
    }

    /// A member; `null` counts as absent, as it does for Go's decoder.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.value.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// An object member.
    pub fn child(&self, name: &str) -> Option<Node<'a>> {
        let value = self.get(name).filter(|value| value.is_object())?;
        Some(Node::new(value, self.path.child(name)))
    }

    /// A text member; empty when absent.
    pub fn text(&self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number member; 0 when absent.
    pub(crate) fn integer(&self, name: &str) -> i64 {
        self.get(name).and_then(Value::as_i64).unwrap_or_default()
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool) == Some(true)
    }

    /// The elements of a list member.
    pub fn list(&self, name: &str) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let path = self.path.child(name);
        let values = self.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        values.iter().enumerate().map(move |(index, value)| Node::new(value, path.index(index)))
    }

    /// The texts of a list member.
    pub(crate) fn texts(&self, name: &str) -> Vec<&'a str> {
        let values = self.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        values.iter().filter_map(Value::as_str).collect()
    }

    /// How many elements a list member or members an object member has; 0 when absent.
    pub fn count(&self, name: &str) -> usize {
        self.get(name).map_or(0, |value| match value {
            Value::Array(elements) => elements.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        })
    }

    /// The members of an object member.
    pub(crate) fn entries(&self, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.get(name)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value))
            .filter(|(_, value)| !value.is_null())
    }
}

/// The quantity of a JSON string or number.
pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Reports a value outside the known ones; an empty one as missing.
pub(crate) fn require_one_of(node: &Node<'_>, name: &str, supported: &[&str], errors: &mut Vec<FieldError>) {
    match node.text(name) {
        "" => errors.push(FieldError::required(node.at(name), "")),
        value if supported.contains(&value) => {}
        value => errors.push(FieldError::not_supported(node.at(name), value, supported)),
    }
}

/// Reports a missing or empty text.
pub(crate) fn require_text(node: &Node<'_>, name: &str, errors: &mut Vec<FieldError>) {
    if node.text(name).is_empty() {
        errors.push(FieldError::required(node.at(name), ""));
    }
}

/// Adds one `Invalid value` error per message.
pub fn invalid(
    path: &FieldPath,
    value: &str,
    messages: impl IntoIterator<Item = String>,
    errors: &mut Vec<FieldError>,
) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path.clone(), value, message)));
}

/// Where a value is, kept on the stack so that only errors cost a path.
struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Root(&'a FieldPath),
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl Trail<'_> {
    fn path(&self) -> FieldPath {
        let parent = self.parent.map(Trail::path).unwrap_or_default();
        match self.step {
            Step::Root(path) => path.clone(),
            Step::Field(name) => parent.child(name),
            Step::Index(index) => parent.index(index),
            Step::Key(key) => parent.key(key),
        }
    }
}

/// Reports every value below `node` that does not have the type its Go field has.
pub fn check_types(node: &Node<'_>, kind: &Kind, errors: &mut Vec<FieldError>) {
    check(node.value, kind, &Trail { parent: None, step: Step::Root(&node.path) }, errors);
}

fn check(value: &Value, kind: &Kind, trail: &Trail<'_>, errors: &mut Vec<FieldError>) {
    let is_int32 = |value: &Value| value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
    let wanted = match (kind, value) {
        (_, Value::Null) | (Kind::Raw, _) => return,
        (Kind::Struct(shape), Value::Object(members)) => {
            for field in shape.0 {
                if let Some(member) = members.get(field.name) {
                    check(
                        member,
                        &field.kind,
                        &Trail { parent: Some(trail), step: Step::Field(field.name) },
                        errors,
                    );
                }
            }
            return;
        }
        (Kind::List(element), Value::Array(elements)) => {
            for (index, value) in elements.iter().enumerate() {
                check(value, element, &Trail { parent: Some(trail), step: Step::Index(index) }, errors);
            }
            return;
        }
        (Kind::Map(element), Value::Object(members)) => {
            for (key, value) in members {
                check(value, element, &Trail { parent: Some(trail), step: Step::Key(key) }, errors);
            }
            return;
        }
        (Kind::Text | Kind::Time | Kind::IntOrString, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => {
            return;
        }
        (Kind::Int32 | Kind::IntOrString, value) if is_int32(value) => return,
        (Kind::Int64, value) if value.is_i64() => return,
        (Kind::Quantity, value) if quantity(value).is_some() => return,
        (kind, value) => kind.wanted(value.is_i64() || value.is_u64()),
    };
    errors.push(FieldError::invalid_value(trail.path(), abridged(&value.to_string()), wanted));
}
