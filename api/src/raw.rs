//! JSON text that is carried from where it was read to where it is written, never re-encoded.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value kept as the text it arrived in: numbers such as `1.50`, unknown fields and key order
/// survive. Cheap to clone. Do not use it below `#[serde(flatten)]` or in untagged or internally
/// tagged enums: serde buffers those through its own value type, which cannot hold raw text.
#[derive(Clone)]
pub struct Raw(Arc<RawValue>);

impl Raw {
    /// Checks that `text` is one JSON value and keeps it.
    ///
    /// # Errors
    /// The parser's error where `text` is not JSON.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(|raw| Self(Arc::from(raw)))
    }

    /// The JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The value as serde_json knows it.
    pub fn as_raw_value(&self) -> &RawValue {
        &self.0
    }

    /// True for the literal `null`.
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }
}

impl From<Box<RawValue>> for Raw {
    fn from(raw: Box<RawValue>) -> Self {
        Self(Arc::from(raw))
    }
}

impl From<&RawValue> for Raw {
    fn from(raw: &RawValue) -> Self {
        Self(Arc::from(raw.to_owned()))
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.get())
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Raw {}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_key_order_survive() {
        let text = r#"{"b":1.50,"a":12345678901234567890123,"c":[{"x":1e3}]}"#;
        let raw: Raw = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&raw).unwrap(), text);
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        assert!(Raw::parse("{").is_err());
    }
}
