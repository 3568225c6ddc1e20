//! Where defaults go: a value that is read, and the patch that completes it.

use serde_json::Value;

use values::json_patch::{self, Patch, Pointer};

/// A value and the pointer to it in the object that is patched.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    value: &'a Value,
    pointer: Pointer,
}

impl<'a> Place<'a> {
    /// A value that `pointer` leads to.
    pub fn new(value: &'a Value, pointer: Pointer) -> Self {
        Self { value, pointer }
    }

    /// The value.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// A member; `null` counts as absent, as it does for Go's decoder.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.value.get(name).filter(|value| !value.is_null())
    }

    /// A text member; empty when absent.
    pub fn text(&self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The pointer to a member, present or not.
    pub fn pointer(&self, name: &str) -> Pointer {
        self.pointer.key(name)
    }

    /// An object member.
    pub fn child(&self, name: &str) -> Option<Place<'a>> {
        let value = self.get(name).filter(|value| value.is_object())?;
        Some(Self::new(value, self.pointer.key(name)))
    }

    /// The objects of a list member.
    pub fn list(&self, name: &str) -> impl Iterator<Item = Place<'a>> + use<'a> {
        let pointer = self.pointer.key(name);
        let values = self.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let places =
            values.iter().enumerate().map(move |(index, value)| Self::new(value, pointer.index(index)));
        places.filter(|place| place.value.is_object())
    }

    /// Sets a member that is absent to JSON text.
    pub fn default_json(&self, name: &str, json: &str, patch: &mut Patch) {
        if self.get(name).is_none() {
            patch.add(self.pointer.key(name), json);
        }
    }

    /// Sets a text that is absent or empty.
    pub fn default_text(&self, name: &str, text: &str, patch: &mut Patch) {
        if self.get(name).is_none_or(|value| value.as_str() == Some("")) {
            patch.add(self.pointer.key(name), json_patch::string(text));
        }
    }

    /// Sets a number that is absent or 0.
    pub(crate) fn default_number(&self, name: &str, number: i64, patch: &mut Patch) {
        if self.get(name).is_none_or(|value| value.as_i64() == Some(0)) {
            patch.add(self.pointer.key(name), number.to_string());
        }
    }

    /// An object member that is always there for Go: an empty one is added where it is absent. What
    /// is no object is left alone.
    pub fn child_or_new(&self, name: &str, patch: &mut Patch) -> Option<Place<'a>> {
        static NOTHING: Value = Value::Null;
        match self.get(name) {
            None => {
                patch.add(self.pointer.key(name), "{}");
                Some(Self::new(&NOTHING, self.pointer.key(name)))
            }
            Some(_) => self.child(name),
        }
    }
}
