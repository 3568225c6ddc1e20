//! One image on one node: the task in the spec of a NodeImage, and what its status says of it
//! (docs/behaviour/images.md#nodeimage).

use std::collections::BTreeMap;

use api::kinds::nodeimage::{Image, NodeImage, Tag, TagStatus};
use api::kinds::shared::ObjectReference;
use serde_json::{json, to_string};

use values::image_reference::NamedImage;
use values::json_patch::{Patch, Pointer, string};

/// The most images that a NodeImage may name.
pub const MOST_IMAGES: usize = 256;

/// The phase of a pull that has ended well.
pub const SUCCEEDED: &str = "Succeeded";
/// The phase of a pull that has failed for good.
pub const FAILED: &str = "Failed";
/// The message of an image that came with credentials of pull Secrets.
pub const WITH_SECRETS: &str = "pulled with pull Secrets";
/// What a message begins with that is about some of the owners of a task.
const NOT_FOR: &str = "not for ";

/// What a task has come to for one of its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOutcome {
    /// It has not ended.
    Open,
    /// The owner has the image.
    Succeeded,
    /// It has failed for good.
    Failed,
}

/// An owner as messages name it.
pub fn word(owner: &ObjectReference) -> String {
    format!("{}/{}", owner.namespace, owner.name)
}

/// The message about owners that have not the image yet, while the others have it; about all where none is named.
pub fn refusal(owners: &[String], error: &str) -> String {
    if owners.is_empty() { error.to_owned() } else { format!("{NOT_FOR}{}: {error}", owners.join(", ")) }
}

/// What a status says to an owner: its phase is that of the owners that its message names.
pub fn fate(status: Option<&TagStatus>, owner: &str) -> TaskOutcome {
    let Some(status) = status else { return TaskOutcome::Open };
    let named = status.message.strip_prefix(NOT_FOR).and_then(|rest| rest.split_once(": "));
    let is_other = named.is_some_and(|(names, _)| names.split(", ").all(|name| name != owner));
    match status.phase.as_str() {
        _ if is_other => TaskOutcome::Succeeded,
        SUCCEEDED => TaskOutcome::Succeeded,
        FAILED => TaskOutcome::Failed,
        _ => TaskOutcome::Open,
    }
}

/// Whether an image came with credentials that not everybody has.
pub fn is_private(status: &TagStatus) -> bool {
    status.message == WITH_SECRETS || status.message.starts_with(NOT_FOR)
}

/// The task for an image, if there is one.
pub fn task<'n>(node: &'n NodeImage, image: &NamedImage) -> Option<&'n Tag> {
    node.spec.images.get(&image.name)?.tags.iter().find(|tag| tag.tag == image.tag)
}

/// What the node says of a tag, of whatever round.
pub fn last_status<'n>(node: &'n NodeImage, image: &str, tag: &str) -> Option<&'n TagStatus> {
    node.status.image_statuses.get(image)?.tags.iter().find(|status| status.tag == tag)
}

/// Whether the image of a tag may be there with credentials that not everybody has: the last round says so.
pub fn is_doubtful(node: &NodeImage, image: &str, tag: &str) -> bool {
    last_status(node, image, tag).is_some_and(is_private)
}

/// What the node says of this round of a task.
pub fn status<'n>(node: &'n NodeImage, image: &str, task: &Tag) -> Option<&'n TagStatus> {
    last_status(node, image, &task.tag).filter(|status| round(status.version) == round(task.version))
}

/// The number of a round.
pub(crate) fn round(version: Option<i64>) -> i64 {
    version.unwrap_or(0)
}

/// Whether the object with this UID is among the owners, whatever version of its API they name.
pub fn is_owned_by(task: &Tag, uid: &str) -> bool {
    task.owner_references.iter().any(|owner| owner.uid == uid)
}

/// Whether a NodeImage may name this image.
pub(crate) fn has_room(node: &NodeImage, image: &str) -> bool {
    node.spec.images.len() < MOST_IMAGES || node.spec.images.contains_key(image)
}

/// The owners of all tasks on a node.
pub fn owners(node: &NodeImage) -> impl Iterator<Item = &ObjectReference> {
    node.spec.images.values().flat_map(|image| &image.tags).flat_map(|tag| &tag.owner_references)
}

/// The JSON Patch that puts images, or takes out those that are `None`, and replaces all labels where they are
/// given. It holds for the version that was observed.
pub(crate) fn patch(
    node: &NodeImage,
    images: &BTreeMap<&str, Option<Image>>,
    labels: Option<&BTreeMap<String, String>>,
) -> String {
    let mut patch = Patch::default();
    let metadata = Pointer::root().key("metadata");
    patch.replace(metadata.key("resourceVersion"), string(&node.metadata.resource_version));
    if let Some(labels) = labels {
        patch.add(metadata.key("labels"), json!(labels).to_string());
    }
    let spec = Pointer::root().key("spec");
    if node.spec.images.is_empty() && !images.is_empty() {
        // Nothing else is in the spec, and the map may be missing.
        patch.add(spec.clone(), r#"{"images":{}}"#);
    }
    for (name, image) in images {
        let place = spec.key("images").key(name);
        match image {
            // Texts and numbers in maps with text keys only: writing them as JSON cannot fail.
            Some(image) => patch.add(place, to_string(image).unwrap_or_default()),
            None if node.spec.images.contains_key(*name) => patch.remove(place),
            None => {}
        }
    }
    patch.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn patched(node: &Value, images: &[(&str, Option<Image>)]) -> Value {
        let typed: NodeImage = serde_json::from_value(node.clone()).unwrap();
        let images = images.iter().cloned().collect();
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let patch: json_patch::Patch = serde_json::from_str(&patch(&typed, &images, Some(&labels))).unwrap();
        let mut after = node.clone();
        json_patch::patch(&mut after, &patch).unwrap();
        after
    }

    #[test]
    fn images_are_put_and_taken_out_and_others_left_alone() {
        let node = json!({"metadata": {"name": "n", "resourceVersion": "7"},
            "spec": {"images": {"a/b": {"tags": [{"tag": "1"}]}, "c": {"tags": []}}}});
        let image = Image { tags: vec![Tag { tag: "2".to_owned(), ..Tag::default() }], ..Image::default() };
        let after =
            patched(&node, &[("a/b", Some(image.clone())), ("d", Some(image)), ("c", None), ("e", None)]);
        let two = json!({"tags": [{"tag": "2"}]});
        assert_eq!(after["spec"]["images"], json!({"a/b": two, "d": two}));
        assert_eq!(after["metadata"], json!({"name": "n", "resourceVersion": "7", "labels": {"a": "b"}}));
    }

    #[test]
    fn the_map_of_images_may_be_missing() {
        for spec in [json!({}), json!({"images": {}})] {
            let node = json!({"metadata": {"name": "n", "resourceVersion": "7"}, "spec": spec});
            let after = patched(&node, &[("a", Some(Image::default()))]);
            assert_eq!(after["spec"]["images"], json!({"a": {"tags": []}}));
        }
    }
}
