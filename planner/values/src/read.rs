//! Objects that others wrote, read into their types. What can't be read is named by its path, in words of the API.

use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Value, map};

use crate::canonical::{CanonicalError, Kind};
use crate::json::RAW_VALUE;

/// Reads a document.
///
/// # Errors
/// The path of the first value that can't be read, and what it must be.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, CanonicalError> {
    serde_json::from_str(text).map_err(|error| {
        // Only what fails is read once more, value by value.
        let Ok(value) = serde_json::from_str::<Value>(text) else { return error.into() };
        match T::deserialize(Reader(&value)) {
            Err(fault) => fault.about(&value).0,
            Ok(_) => error.into(),
        }
    })
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Fault(CanonicalError);

impl de::Error for Fault {
    fn custom<T: std::fmt::Display>(problem: T) -> Self {
        Self(CanonicalError::new(problem.to_string()))
    }
}

impl Fault {
    /// The fault as that of this value, unless it lies deeper.
    fn about(self, value: &Value) -> Self {
        let Self(error) = self;
        if error.is_named() {
            return Self(error);
        }
        let is_integer = value.is_i64() || value.is_u64();
        Self(CanonicalError::new(wanted(&error.to_string(), is_integer)).about(&value.to_string()))
    }
}

/// What a value must be, by what serde says of it.
fn wanted(message: &str, is_integer: bool) -> String {
    const NO_VARIANT: &str = "data did not match any variant of untagged enum ";
    let message = message.rsplit_once(" at line ").map_or(message, |(problem, _)| problem);
    let expected = message.rsplit_once(", expected ").map_or(message, |(_, expected)| expected);
    let kind = match expected {
        "a string" => Kind::Text,
        "a boolean" => Kind::Bool,
        "i32" => Kind::Int32,
        "i64" => Kind::Int64,
        "a sequence" => Kind::List(&Kind::Raw),
        "a map" => Kind::Map(&Kind::Raw),
        _ if expected.starts_with("struct ") => Kind::Map(&Kind::Raw),
        _ => match message.strip_prefix(NO_VARIANT) {
            Some("IntOrString") => Kind::IntOrString,
            // Words that a choice does not know are read as they are.
            Some(_) => Kind::Text,
            None => return message.to_owned(),
        },
    };
    kind.wanted(is_integer).to_owned()
}

/// Reads a value.
struct Reader<'de>(&'de Value);

impl<'de> de::Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Array(elements) => visitor.visit_seq(Elements(elements.iter().enumerate())),
            Value::Object(members) => visitor.visit_map(Members { rest: members.iter(), value: None }),
            other => other.deserialize_any(visitor).map_err(de::Error::custom),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == RAW_VALUE {
            visitor.visit_map(Captured(Some(self.0.to_string())))
        } else {
            visitor.visit_newtype_struct(self)
        }
    }

    /// A struct can be read from a list too, by the order of its fields: that is no object of the API.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if self.0.is_array() {
            return Err(de::Error::custom("invalid type: sequence, expected a map"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.0.deserialize_enum(name, variants, visitor).map_err(de::Error::custom)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Elements<'de>(std::iter::Enumerate<std::slice::Iter<'de, Value>>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((index, value)) = self.0.next() else { return Ok(None) };
        let read = seed.deserialize(Reader(value));
        read.map(Some).map_err(|fault| Fault(fault.about(value).0.at(index)))
    }
}

struct Members<'de> {
    rest: map::Iter<'de>,
    value: Option<(&'de String, &'de Value)>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.value = self.rest.next();
        let Some((name, _)) = self.value else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (name, value) = self.value.take().ok_or_else(|| de::Error::custom("a member has no value"))?;
        let read = seed.deserialize(Reader(value));
        read.map_err(|fault| Fault(fault.about(value).0.within(name)))
    }
}

/// The text of a value, in the form in which `Box<RawValue>` wants it.
struct Captured(Option<String>);

impl<'de> MapAccess<'de> for Captured {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        seed.deserialize(BorrowedStrDeserializer::new(RAW_VALUE)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let text = self.0.take().ok_or_else(|| de::Error::custom("a value is read twice"))?;
        seed.deserialize(StringDeserializer::new(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::kinds::cloneset::CloneSet;
    use api::sidecarset::SidecarSet;

    fn message<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        from_str::<T>(text).unwrap_err().to_string()
    }

    #[test]
    fn what_can_not_be_read_is_named_by_its_path() {
        for (spec, expected) in [
            (r#"{"replicas":"x"}"#, r#"spec.replicas: Invalid value: "x": must be an integer"#),
            (
                r#"{"replicas":2147483648}"#,
                "spec.replicas: Invalid value: 2147483648: must be an integer of 32 bits",
            ),
            (r#"{"selector":7}"#, "spec.selector: Invalid value: 7: must be an object"),
            (r#"{"selector":[7]}"#, "spec.selector: Invalid value: [7]: must be an object"),
            (
                r#"{"selector":{"matchExpressions":[{"key":"a"},{"key":[]}]}}"#,
                "spec.selector.matchExpressions[1].key: Invalid value: []: must be a string",
            ),
            (
                r#"{"scaleStrategy":{"podsToDelete":[null]}}"#,
                "spec.scaleStrategy.podsToDelete[0]: Invalid value: null: must be a string",
            ),
            (
                r#"{"lifecycle":{"preDelete":{"labelsHandler":{"a":1}}}}"#,
                "spec.lifecycle.preDelete.labelsHandler.a: Invalid value: 1: must be a string",
            ),
            (
                r#"{"updateStrategy":{"rollingUpdate":{"paused":"yes"}}}"#,
                r#"spec.updateStrategy.rollingUpdate.paused: Invalid value: "yes": must be true or false"#,
            ),
            (
                r#"{"updateStrategy":{"rollingUpdate":{"maxSurge":[1]}}}"#,
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: [1]: must be an integer or a string",
            ),
            (
                r#"{"updateStrategy":{"rollingUpdate":{"maxSurge":2147483648}}}"#,
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 2147483648: must be an integer of 32 bits \
                 or a string",
            ),
            (
                r#"{"updateStrategy":{"type":7}}"#,
                "spec.updateStrategy.type: Invalid value: 7: must be a string",
            ),
        ] {
            assert_eq!(message::<CloneSet>(&format!(r#"{{"spec":{spec}}}"#)), expected);
        }
        assert_eq!(message::<CloneSet>("7"), "Invalid value: 7: must be an object");
        assert!(message::<CloneSet>("{").starts_with("EOF while parsing"), "{}", message::<CloneSet>("{"));
    }

    #[test]
    fn what_is_carried_as_text_is_named_too() {
        let set = r#"{"spec":{"containers":[{"name":"a"},{"transferEnv":{}}]}}"#;
        let expected = r#"spec.containers[1]: Invalid value: {"transferEnv":{}}: must be a list"#;
        assert_eq!(message::<SidecarSet>(set), expected);
        let long = format!(r#"{{"spec":{{"selector":"{}"}}}}"#, "a".repeat(500));
        assert!(message::<SidecarSet>(&long).len() < 150);
    }

    #[test]
    fn a_document_is_read_as_serde_json_reads_it() {
        let text = r#"{"spec":{"replicas":3,"template":{"a":1.50}}}"#;
        assert_eq!(from_str::<CloneSet>(text).unwrap(), serde_json::from_str::<CloneSet>(text).unwrap());
    }
}
