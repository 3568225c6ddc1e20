//! Labels and annotations, the only metadata that a conversion may change.

use crate::raw_object::{RawNode, RawObject};

/// The value of a label.
pub(super) fn label(object: &mut RawObject<'_>, key: &str) -> Option<String> {
    object.object_mut("metadata")?.object_mut("labels")?.string(key)
}

/// The value of an annotation.
pub(super) fn annotation(object: &mut RawObject<'_>, key: &str) -> Option<String> {
    object.object_mut("metadata")?.object_mut("annotations")?.string(key)
}

/// Sets a label, or deletes it.
pub(super) fn mirror_label(object: &mut RawObject<'_>, key: &str, value: Option<&str>) {
    mirror(object, "labels", key, value);
}

/// Sets an annotation, or deletes it.
pub(super) fn mirror_annotation(object: &mut RawObject<'_>, key: &str, value: Option<&str>) {
    mirror(object, "annotations", key, value);
}

fn mirror(object: &mut RawObject<'_>, section: &str, key: &str, value: Option<&str>) {
    object.edit_object("metadata", |metadata| {
        let mut emptied = false;
        metadata.edit_object(section, |entries| match value {
            Some(value) if entries.string(key).as_deref() == Some(value) => {}
            Some(value) => entries.insert(key, RawNode::string(value)),
            None => emptied = entries.remove(key).is_some() && entries.is_empty(),
        });
        if emptied {
            metadata.remove(section);
        }
    });
}
