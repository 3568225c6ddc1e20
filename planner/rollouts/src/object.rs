//! Objects of any kind, as the API server gave them.

use serde_json::{Map, Value};

/// What an object is called. Kinds are the same whatever version of their group somebody names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Group and version; of the core group only the version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectName {
    /// An object of a kind.
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let [api_version, kind, namespace, name] = [api_version, kind, namespace, name].map(str::to_owned);
        Self { api_version, kind, namespace, name }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        group(&self.api_version)
    }
}

/// The group of an `apiVersion`; empty for the core group.
pub fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// What objects of all kinds have.
pub trait Object {
    /// The text at a JSON pointer; empty where there is none.
    fn text(&self, pointer: &str) -> &str;
    /// The whole number at a JSON pointer.
    fn number(&self, pointer: &str) -> Option<i64>;
    /// The members of the object at a JSON pointer.
    fn members(&self, pointer: &str) -> Option<&Map<String, Value>>;
    /// The items of the list at a JSON pointer; none where there is no list.
    fn items(&self, pointer: &str) -> &[Value];

    /// The name.
    fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The UID.
    fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// The version of this state of the object.
    fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    /// It is being deleted.
    fn is_deleting(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// The value of a label; `None` where it has none.
    fn label(&self, key: &str) -> Option<&str> {
        self.members("/metadata/labels")?.get(key)?.as_str()
    }

    /// The value of an annotation; `None` where it has none.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.members("/metadata/annotations")?.get(key)?.as_str()
    }

    /// The UID of the owner that manages the object; `None` where nobody does.
    fn controller(&self) -> Option<&str> {
        let owner = self.items("/metadata/ownerReferences").iter();
        let mut managing =
            owner.filter(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
        managing.next()?.get("uid")?.as_str()
    }

    /// It has a finalizer.
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.items("/metadata/finalizers").iter().any(|held| held.as_str() == Some(finalizer))
    }
}

impl Object for Value {
    fn text(&self, pointer: &str) -> &str {
        self.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, pointer: &str) -> Option<i64> {
        self.pointer(pointer)?.as_i64()
    }

    fn members(&self, pointer: &str) -> Option<&Map<String, Value>> {
        self.pointer(pointer)?.as_object()
    }

    fn items(&self, pointer: &str) -> &[Value] {
        self.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}
