//! What a release has made of a network object, remembered on the object itself: so whoever continues the release knows
//! what to put back, and which changes are a user's.

use api::annotations::RELEASED_NETWORK;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Error;
use crate::object::Object as _;

/// What one of them has made of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// What it was before, with the changes that users made since; unset where another place holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<Value>,
    /// What it was made.
    pub(super) applied: Value,
}

/// The memories of an object, by who has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Memories(BTreeMap<String, Memory>);

impl Memories {
    /// Reads the memories of an object.
    pub(super) fn of(object: &Value) -> Result<Self, Error> {
        object
            .annotation(RELEASED_NETWORK)
            .map_or_else(|| Ok(Self::default()), |text| read(object, RELEASED_NETWORK, text))
    }

    /// What this one has made of the object.
    pub(super) fn get(&self, holder: &str) -> Option<&Memory> {
        self.0.get(holder)
    }

    /// Another one that has changed the object, where this one has not.
    pub(super) fn other(&self, holder: &str) -> Option<&str> {
        let first = self.0.keys().map(String::as_str).next();
        first.filter(|_| !self.0.contains_key(holder))
    }

    /// The annotation with one memory replaced; `null` where nothing is left to remember.
    pub(super) fn with(&self, holder: &str, memory: Option<Memory>) -> Value {
        let mut memories = self.0.clone();
        memories.remove(holder);
        memories.extend(memory.map(|memory| (holder.to_owned(), memory)));
        if memories.is_empty() { Value::Null } else { json!(memories).to_string().into() }
    }
}

/// What an annotation says in JSON.
pub(super) fn read<T: for<'de> Deserialize<'de>>(
    object: &Value,
    annotation: &str,
    text: &str,
) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| {
        let (kind, name) = (object.text("/kind"), object.name());
        Error::Problem(format!("annotation {annotation} of {kind} {name} can't be read: {error}"))
    })
}
