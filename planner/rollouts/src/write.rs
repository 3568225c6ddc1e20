//! Writes of a plan, as data.

use serde_json::Value;

use crate::object::{Object as _, ObjectName};

/// One write. Writes of a plan are carried out in their order; one that fails ends the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Creates an object. One of this name that exists already is left as it is.
    Create {
        /// The object's name; where `metadata.generateName` is set, its prefix.
        name: ObjectName,
        /// The object.
        object: Value,
    },
    /// Changes an object by a JSON merge patch (RFC 7386).
    Patch {
        /// The object.
        name: ObjectName,
        /// Empty for the object itself, else such as `status`.
        subresource: &'static str,
        /// The patch. With `metadata.resourceVersion` it applies to that state alone, with `metadata.uid` to that object.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// The object.
        name: ObjectName,
        /// The UID of the object that is meant.
        uid: String,
    },
}

impl Write {
    /// Changes the object that was read, in the state in which it was read.
    pub fn patch(name: &ObjectName, read: &Value, mut patch: Value) -> Self {
        if let Some(patch) = patch.as_object_mut() {
            let metadata = patch.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("uid".to_owned(), read.uid().into());
                metadata.insert("resourceVersion".to_owned(), read.resource_version().into());
            }
        }
        Self::Patch { name: name.clone(), subresource: "", patch }
    }

    /// Deletes the object that was read.
    pub fn delete(name: &ObjectName, read: &Value) -> Self {
        Self::Delete { name: name.clone(), uid: read.uid().to_owned() }
    }
}
