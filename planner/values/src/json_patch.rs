//! JSON Patch (RFC 6902) operations, written where a change is known rather than found by comparing.
//!
//! Values are raw JSON text, so that nothing which passes through is re-encoded.

use std::fmt::Write as _;

use crate::json::from_special;

mod apply;
mod members;

pub use apply::{ApplyError, apply};
pub use members::edits;

/// A JSON Pointer (RFC 6901).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(String);

impl Pointer {
    /// The whole document.
    pub fn root() -> Self {
        Self::default()
    }

    /// A pointer from text that is already escaped, `/spec/containers`.
    pub fn from_escaped(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// This pointer followed by an object key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut text = String::with_capacity(self.0.len() + key.len() + 8);
        text.push_str(&self.0);
        text.push('/');
        let mut rest = key;
        while let Some(position) = rest.bytes().position(|byte| matches!(byte, b'~' | b'/')) {
            let (plain, special) = rest.split_at_checked(position).unwrap_or_default();
            text.push_str(plain);
            text.push_str(if special.starts_with('~') { "~0" } else { "~1" });
            rest = special.get(1..).unwrap_or_default();
        }
        text.push_str(rest);
        Self(text)
    }

    /// This pointer followed by a list index.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0))
    }

    /// The place behind the last element of the list that this pointer names.
    #[must_use]
    pub fn end(&self) -> Self {
        Self(format!("{}/-", self.0))
    }

    /// The escaped text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One step of a [`Patch`]. Values are JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Inserts into a list, or sets a key of an object.
    Add(Pointer, String),
    /// Replaces what is there.
    Replace(Pointer, String),
    /// Removes what is there.
    Remove(Pointer),
    /// Changes nothing, and refuses the whole patch where another value is there.
    Test(Pointer, String),
}

/// A JSON Patch: operations in the order in which they apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch(Vec<Operation>);

impl Patch {
    /// Adds an `add` operation with JSON text as value.
    pub fn add(&mut self, path: Pointer, value: impl Into<String>) {
        self.0.push(Operation::Add(path, value.into()));
    }

    /// Adds a `replace` operation with JSON text as value.
    pub fn replace(&mut self, path: Pointer, value: impl Into<String>) {
        self.0.push(Operation::Replace(path, value.into()));
    }

    /// Adds a `remove` operation.
    pub fn remove(&mut self, path: Pointer) {
        self.0.push(Operation::Remove(path));
    }

    /// Adds a `test` operation with JSON text as value.
    pub fn test(&mut self, path: Pointer, value: impl Into<String>) {
        self.0.push(Operation::Test(path, value.into()));
    }

    /// True when nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The operations in order.
    pub fn operations(&self) -> &[Operation] {
        &self.0
    }

    /// Appends the operations of `other`.
    pub fn extend(&mut self, other: Patch) {
        self.0.extend(other.0);
    }

    /// The patch as JSON, as an admission response carries it.
    pub fn to_json(&self) -> String {
        let length: usize = self.0.iter().map(|operation| operation.value().len() + 96).sum();
        let mut json = String::with_capacity(length + 2);
        json.push('[');
        for (position, operation) in self.0.iter().enumerate() {
            if position > 0 {
                json.push(',');
            }
            operation.write_json(&mut json);
        }
        json.push(']');
        json
    }
}

impl Operation {
    fn value(&self) -> &str {
        match self {
            Self::Add(_, value) | Self::Replace(_, value) | Self::Test(_, value) => value,
            Self::Remove(_) => "",
        }
    }

    fn write_json(&self, json: &mut String) {
        let (operation, path) = match self {
            Self::Add(path, _) => ("add", path),
            Self::Replace(path, _) => ("replace", path),
            Self::Remove(path) => ("remove", path),
            Self::Test(path, _) => ("test", path),
        };
        json.push_str("{\"op\":\"");
        json.push_str(operation);
        json.push_str("\",\"path\":");
        write_string(json, path.as_str());
        if !matches!(self, Self::Remove(_)) {
            json.push_str(",\"value\":");
            json.push_str(self.value());
        }
        json.push('}');
    }
}

/// `text` as a JSON string, quotes included.
pub fn string(text: &str) -> String {
    let mut json = String::new();
    write_string(&mut json, text);
    json
}

/// Appends `text` to `json` as a JSON string, quotes included.
pub fn write_string(json: &mut String, text: &str) {
    // With room for the quotes of JSON within JSON, which annotations hold.
    json.reserve(text.len() + text.len() / 8 + 2);
    json.push('"');
    let (mut written, mut read) = (0, 0);
    while let [special, behind @ ..] = from_special(text.as_bytes().get(read..).unwrap_or_default()) {
        read = text.len() - behind.len();
        let position = read - 1;
        json.push_str(text.get(written..position).unwrap_or_default());
        written = read;
        match special {
            // These follow as they are, with the text behind them.
            b'"' | b'\\' => {
                json.push('\\');
                written = position;
            }
            b'\n' => json.push_str("\\n"),
            b'\r' => json.push_str("\\r"),
            b'\t' => json.push_str("\\t"),
            // Writing to a String cannot fail.
            control => {
                let _ = write!(json, "\\u{control:04x}");
            }
        }
    }
    json.push_str(text.get(written..).unwrap_or_default());
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_escaped() {
        let path = Pointer::from_escaped("/metadata/annotations").key("kruise.io/a~b");
        assert_eq!(path.as_str(), "/metadata/annotations/kruise.io~1a~0b");
    }

    #[test]
    fn operations_are_written_in_order() {
        let mut patch = Patch::default();
        patch.add(Pointer::from_escaped("/a").end(), "{\"x\":1.50}");
        patch.remove(Pointer::root().key("b").index(2));
        assert_eq!(
            patch.to_json(),
            r#"[{"op":"add","path":"/a/-","value":{"x":1.50}},{"op":"remove","path":"/b/2"}]"#
        );
    }

    proptest! {
        #[test]
        fn any_text_survives_as_a_json_string(text in ".*") {
            prop_assert_eq!(serde_json::from_str::<String>(&string(&text)).unwrap(), text);
        }

        #[test]
        fn any_patch_is_json(key in ".*", value in ".*") {
            let mut patch = Patch::default();
            patch.replace(Pointer::root().key(&key), string(&value));
            let parsed: json_patch::Patch = serde_json::from_str(&patch.to_json()).unwrap();
            prop_assert_eq!(parsed.0.len(), 1);
        }
    }
}
