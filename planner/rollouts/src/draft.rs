//! An object as it is to be: changes are made to a copy, and what differs in the end is one patch.

use serde_json::{Value, json};
use values::merge_patch::difference;

use crate::object::{Object as _, ObjectName};
use crate::write::Write;

/// An object that was read, and what becomes of it.
#[derive(Clone, Debug)]
pub(crate) struct Draft<'a> {
    name: &'a ObjectName,
    read: &'a Value,
    object: Value,
}

impl<'a> Draft<'a> {
    /// The object as it was read.
    pub(crate) fn of(name: &'a ObjectName, read: &'a Value) -> Self {
        Self { name, read, object: read.clone() }
    }

    /// The object as it is to be.
    pub(crate) fn object(&self) -> &Value {
        &self.object
    }

    /// The same, to be changed.
    pub(crate) fn edit(&mut self) -> &mut Value {
        &mut self.object
    }

    /// Sets the member at a path; `null` removes it.
    pub(crate) fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        set(&mut self.object, path, value.into());
    }

    /// Sets an annotation.
    pub(crate) fn annotate(&mut self, key: &str, value: impl Into<Value>) {
        self.set(&["metadata", "annotations", key], value);
    }

    /// Removes an annotation.
    pub(crate) fn remove_annotation(&mut self, key: &str) {
        self.annotate(key, Value::Null);
    }

    /// Removes a label.
    pub(crate) fn remove_label(&mut self, key: &str) {
        self.set(&["metadata", "labels", key], Value::Null);
    }

    /// Lets all Pods be new. A partition of 0 stays: admission puts it in where there is none.
    pub(crate) fn open_partition(&mut self, path: &[&str]) {
        if value(&self.object, path) != 0 {
            self.set(path, Value::Null);
        }
    }

    /// Lets what is paused go on. What does not say that it is paused is not.
    pub(crate) fn resume(&mut self, path: &[&str]) {
        if value(&self.object, path) == true {
            self.set(path, false);
        }
    }

    /// Something is to change.
    pub(crate) fn is_changed(&self) -> bool {
        self.object != *self.read
    }

    /// What is to be written, in the state in which the object was read.
    pub(crate) fn into_write(self) -> Option<Write> {
        self.is_changed().then(|| Write::patch(self.name, self.read, difference(self.read, &self.object)))
    }
}

/// Sets the member at a path of an object; `null` removes it.
pub(crate) fn set(object: &mut Value, path: &[&str], value: Value) {
    let [name, rest @ ..] = path else {
        *object = value;
        return;
    };
    if value.is_null() && object.get(name).is_none() {
        return;
    }
    if !object.is_object() {
        *object = json!({});
    }
    let Some(members) = object.as_object_mut() else { return };
    if value.is_null() && rest.is_empty() {
        members.remove(*name);
    } else {
        set(members.entry(*name).or_insert(Value::Null), rest, value);
    }
}

/// The value at a path of an object; `null` where there is none.
pub(super) fn value(object: &Value, path: &[&str]) -> Value {
    path.iter().try_fold(object, |value, name| value.get(name)).cloned().unwrap_or_default()
}

/// The annotation of an object that holds JSON with members; without any where there is none.
pub(crate) fn json_annotation(object: &Value, key: &str) -> Value {
    let value = object.annotation(key).and_then(|text| serde_json::from_str(text).ok());
    value.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch_of(change: impl FnOnce(&mut Draft<'_>)) -> Option<Value> {
        let name = ObjectName::new("apps/v1", "Deployment", "shop", "web");
        let read = json!({"metadata": {"uid": "u", "resourceVersion": "7", "labels": {"a": "b"}, "future": 1.50},
            "spec": {"paused": true, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let mut draft = Draft::of(&name, &read);
        change(&mut draft);
        draft.into_write().map(|write| match write {
            Write::Patch { patch, .. } => patch,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn only_what_differs_is_written() {
        let patch = patch_of(|draft| {
            draft.set(&["spec", "strategy", "type"], "Recreate");
            draft.set(&["spec", "strategy", "rollingUpdate"], Value::Null);
            draft.annotate("x/y", "z");
            draft.remove_label("a");
            draft.resume(&["spec", "paused"]);
        });
        let metadata =
            json!({"annotations": {"x/y": "z"}, "labels": {"a": null}, "uid": "u", "resourceVersion": "7"});
        let spec = json!({"paused": false, "strategy": {"type": "Recreate", "rollingUpdate": null}});
        assert_eq!(patch, Some(json!({"metadata": metadata, "spec": spec})));
    }

    #[test]
    fn a_change_that_changes_nothing_is_no_write() {
        let patch = patch_of(|draft| {
            draft.set(&["spec", "paused"], false);
            draft.set(&["spec", "paused"], true);
            draft.remove_annotation("x/y");
            draft.set(&["spec", "absent", "deeper"], Value::Null);
            draft.resume(&["spec", "strategy", "paused"]);
        });
        assert_eq!(patch, None);
    }
}
