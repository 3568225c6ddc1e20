//! Editing of JSON objects that keeps the text of everything that is not edited.
//!
//! A [`RawObject`] holds its entries in order, each as the JSON text it was read with. An entry is taken
//! apart only when somebody edits below it, so unknown fields, numbers such as `1.50` or integers of 23
//! digits, and the order of keys survive an edit elsewhere byte for byte.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// One JSON value: the text it came with, or, once something below it was read, its parts.
#[derive(Debug, Clone)]
pub struct RawNode<'a>(Repr<'a>);

#[derive(Debug, Clone)]
enum Repr<'a> {
    Text(Cow<'a, str>),
    Object(RawObject<'a>),
    Array(Vec<RawNode<'a>>),
}

/// A JSON object: ordered entries with unique keys.
#[derive(Debug, Clone, Default)]
pub struct RawObject<'a> {
    entries: Vec<(String, RawNode<'a>)>,
}

impl<'a> RawNode<'a> {
    /// Takes over the text of a JSON value.
    pub fn from_raw(raw: &'a RawValue) -> Self {
        Self(Repr::Text(Cow::Borrowed(raw.get())))
    }

    /// Takes over the text of a JSON value that outlives its source.
    pub fn from_owned_raw(raw: Box<RawValue>) -> Self {
        Self(Repr::Text(Cow::Owned(Box::<str>::from(raw).into_string())))
    }

    /// A JSON string.
    pub fn string(value: &str) -> Self {
        let mut text = String::with_capacity(value.len() + 2);
        write_string(&mut text, value);
        Self(Repr::Text(Cow::Owned(text)))
    }

    /// A JSON boolean.
    pub fn boolean(value: bool) -> Self {
        Self(Repr::Text(Cow::Borrowed(if value { "true" } else { "false" })))
    }

    /// A JSON integer.
    pub fn integer(value: i64) -> Self {
        Self(Repr::Text(Cow::Owned(value.to_string())))
    }

    /// A JSON array.
    pub fn array(items: Vec<RawNode<'a>>) -> Self {
        Self(Repr::Array(items))
    }

    /// The decoded string, if this is a JSON string.
    pub fn as_string(&self) -> Option<String> {
        match &self.0 {
            Repr::Text(text) => serde_json::from_str(text).ok(),
            Repr::Object(_) | Repr::Array(_) => None,
        }
    }

    /// Whether this is the literal `true`.
    pub fn is_true(&self) -> bool {
        self.is_literal("true")
    }

    /// Whether this is the scalar written exactly as `literal`.
    pub fn is_literal(&self, literal: &str) -> bool {
        matches!(&self.0, Repr::Text(text) if text == literal)
    }

    /// The object, taken apart for reading and editing; `None` if this is no object.
    pub fn as_object_mut(&mut self) -> Option<&mut RawObject<'a>> {
        if let Repr::Text(text) = &self.0 {
            let object = match text {
                Cow::Borrowed(text) => RawObject::parse(text).ok()?,
                Cow::Owned(text) => RawObject::parse(text).ok()?.detached(),
            };
            self.0 = Repr::Object(object);
        }
        match &mut self.0 {
            Repr::Object(object) => Some(object),
            Repr::Text(_) | Repr::Array(_) => None,
        }
    }

    /// The items, taken apart for reading and editing; `None` if this is no array.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<RawNode<'a>>> {
        if let Repr::Text(text) = &self.0 {
            let items = match text {
                Cow::Borrowed(text) => {
                    let items: Vec<&'a RawValue> = serde_json::from_str(text).ok()?;
                    items.into_iter().map(RawNode::from_raw).collect()
                }
                Cow::Owned(text) => {
                    let items: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
                    items.into_iter().map(RawNode::from_owned_raw).collect()
                }
            };
            self.0 = Repr::Array(items);
        }
        match &mut self.0 {
            Repr::Array(items) => Some(items),
            Repr::Text(_) | Repr::Object(_) => None,
        }
    }

    /// The object, or `None` if this is no object.
    pub fn into_object(mut self) -> Option<RawObject<'a>> {
        self.as_object_mut().map(std::mem::take)
    }

    /// The items, or `None` if this is no array.
    pub fn into_array(mut self) -> Option<Vec<RawNode<'a>>> {
        self.as_array_mut().map(std::mem::take)
    }

    /// Whether both are still whole and have the same text. `false` says nothing: parts that were taken
    /// apart, or another order of keys, may mean the same value.
    pub fn has_text_of(&self, other: &RawNode<'_>) -> bool {
        matches!((&self.0, &other.0), (Repr::Text(one), Repr::Text(two)) if one == two)
    }

    fn write(&self, out: &mut String) {
        match &self.0 {
            Repr::Text(text) => out.push_str(text),
            Repr::Object(object) => object.write(out),
            Repr::Array(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
        }
    }
}

impl fmt::Display for RawNode<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        formatter.write_str(&text)
    }
}

impl<'a> From<RawObject<'a>> for RawNode<'a> {
    fn from(object: RawObject<'a>) -> Self {
        Self(Repr::Object(object))
    }
}

impl<'a> RawObject<'a> {
    /// Reads the entries of one JSON object; their values stay text. Of a repeated key the last one counts.
    ///
    /// # Errors
    /// If `text` is not exactly one JSON object.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Entries<'a>>(text).map(|Entries(entries)| Self::from_entries(entries))
    }

    /// An object of these entries; of a repeated key the last one counts.
    pub fn from_entries(mut entries: Vec<(String, RawNode<'a>)>) -> Self {
        let distinct = entries.iter().map(|(key, _)| key.as_str()).collect::<HashSet<_>>().len();
        if distinct < entries.len() {
            let mut last = HashMap::with_capacity(distinct);
            for (position, (key, _)) in entries.iter().enumerate() {
                last.insert(key.clone(), position);
            }
            let mut position = 0;
            entries.retain(|(key, _)| {
                position += 1;
                last.get(key).is_some_and(|kept| kept + 1 == position)
            });
        }
        Self { entries }
    }

    /// Copies every text, so that the object outlives its source.
    fn detached<'b>(self) -> RawObject<'b> {
        let entries = self.entries.into_iter().map(|(key, node)| {
            let text = Cow::Owned(node.to_string());
            (key, RawNode(Repr::Text(text)))
        });
        RawObject { entries: entries.collect() }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    /// The entries in order, for editing.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut RawNode<'a>)> {
        self.entries.iter_mut().map(|(key, node)| (key.as_str(), node))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&RawNode<'a>> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The value of `key`, for editing.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut RawNode<'a>> {
        self.entries.iter_mut().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The decoded value of `key`, if it is a string.
    pub fn string(&self, key: &str) -> Option<String> {
        self.get(key).and_then(RawNode::as_string)
    }

    /// The object at `key`; `None` if there is none.
    pub fn object_mut(&mut self, key: &str) -> Option<&mut RawObject<'a>> {
        self.get_mut(key).and_then(RawNode::as_object_mut)
    }

    /// The items of the array at `key`; `None` if there is no array.
    pub fn array_mut(&mut self, key: &str) -> Option<&mut Vec<RawNode<'a>>> {
        self.get_mut(key).and_then(RawNode::as_array_mut)
    }

    /// Sets `key`, in its place if it exists, else at the end.
    pub fn insert(&mut self, key: &str, node: RawNode<'a>) {
        match self.get_mut(key) {
            Some(present) => *present = node,
            None => self.entries.push((key.to_owned(), node)),
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<RawNode<'a>> {
        let position = self.entries.iter().position(|(name, _)| name == key)?;
        Some(self.entries.remove(position).1)
    }

    /// Gives the entry `from` the key `to`, in its place; an entry already called `to` is replaced.
    pub fn rename(&mut self, from: &str, to: &str) {
        if self.get(from).is_some() {
            self.remove(to);
            for (key, _) in self.entries.iter_mut().filter(|(key, _)| key == from) {
                to.clone_into(key);
            }
        }
    }

    /// Edits the object at `key`. Where there is none, an empty one is edited and kept only if the edit
    /// put something into it.
    pub fn edit_object(&mut self, key: &str, edit: impl FnOnce(&mut RawObject<'a>)) {
        if let Some(object) = self.object_mut(key) {
            edit(object);
        } else {
            let mut object = RawObject::default();
            edit(&mut object);
            if !object.is_empty() {
                self.insert(key, object.into());
            }
        }
    }

    /// Takes `key` out if it is an object without entries.
    pub fn remove_empty_object(&mut self, key: &str) {
        if self.object_mut(key).is_some_and(|object| object.is_empty()) {
            self.remove(key);
        }
    }

    fn write(&self, out: &mut String) {
        out.push('{');
        for (position, (key, node)) in self.entries.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            write_string(out, key);
            out.push(':');
            node.write(out);
        }
        out.push('}');
    }
}

impl fmt::Display for RawObject<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        formatter.write_str(&text)
    }
}

/// Writes a JSON string: what JSON demands is escaped, nothing else.
fn write_string(out: &mut String, value: &str) {
    out.push('"');
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// The entries of an object in the order of the text.
struct Entries<'a>(Vec<(String, RawNode<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, raw)) = map.next_entry::<String, &'de RawValue>()? {
                    entries.push((key, RawNode::from_raw(raw)));
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_edited_keeps_its_text() {
        let text =
            r#"{"z": {"n": 1.50, "big": 12345678901234567890123},"a":[1, 2],"b":{"c":{"d":1e3}, "e":null}}"#;
        let mut object = RawObject::parse(text).unwrap();
        object.object_mut("b").unwrap().object_mut("c").unwrap().insert("f", RawNode::boolean(true));
        assert_eq!(
            object.to_string(),
            r#"{"z":{"n": 1.50, "big": 12345678901234567890123},"a":[1, 2],"b":{"c":{"d":1e3,"f":true},"e":null}}"#
        );
    }

    #[test]
    fn the_last_of_repeated_keys_counts() {
        assert_eq!(RawObject::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap().to_string(), r#"{"b":2,"a":3}"#);
    }

    #[test]
    fn renaming_keeps_the_place() {
        let mut object = RawObject::parse(r#"{"a":1,"b":2,"c":3}"#).unwrap();
        object.rename("a", "c");
        object.rename("absent", "b");
        assert_eq!(object.to_string(), r#"{"c":1,"b":2}"#);
    }

    #[test]
    fn strings_are_escaped_as_json_demands() {
        let value = "a\"b\\c\n\r\t\u{1}é😀";
        assert_eq!(serde_json::from_str::<String>(&RawNode::string(value).to_string()).unwrap(), value);
        assert_eq!(RawNode::string(value).as_string().as_deref(), Some(value));
    }

    #[test]
    fn parts_of_owned_text_can_be_edited() {
        let raw = RawValue::from_string(r#"{"a":[{"b":1}]}"#.to_owned()).unwrap();
        let mut node = RawNode::from_owned_raw(raw);
        let items = node.as_object_mut().unwrap().array_mut("a").unwrap();
        items.first_mut().unwrap().as_object_mut().unwrap().insert("c", RawNode::integer(-2));
        assert_eq!(node.to_string(), r#"{"a":[{"b":1,"c":-2}]}"#);
    }

    #[test]
    fn an_edit_that_adds_nothing_creates_nothing() {
        let mut object = RawObject::parse(r#"{"a":null}"#).unwrap();
        object.edit_object("a", |_| ());
        object.edit_object("b", |_| ());
        assert_eq!(object.to_string(), r#"{"a":null}"#);
        object.edit_object("b", |inner| inner.insert("c", RawNode::string("d")));
        assert_eq!(object.to_string(), r#"{"a":null,"b":{"c":"d"}}"#);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "null", "{", "{} x", "1"] {
            assert!(RawObject::parse(text).is_err(), "{text}");
        }
    }
}
