//! What the API server stores for a NodeImage (docs/behaviour/images.md#defaults-of-nodeimages).

use std::collections::BTreeMap;

use api::kinds::nodeimage::KIND;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::workload::image_pull::default_pull_policy;
use crate::workload::submitted::filled;
use pod::template::place::Place;
use values::json_patch::{self, Patch, Pointer};
use values::moment::rfc3339;
use values::verdict::{Denial, refused};

/// The operations that complete `object`, a NodeImage in any version. A task that `old` has too, as it is stored, keeps its
/// time: a client that applies a manifest again writes none, and would see another one each time.
///
/// # Errors
/// Code 400 for what is no object.
pub fn default(object: &str, old: Option<&str>, now: Timestamp) -> Result<Patch, Denial> {
    let (value, mut patch) = filled(object, old, KIND)?;
    let old: Value = old.and_then(|old| serde_json::from_str(old).ok()).unwrap_or_default();
    let known = |image: &str, tag: &Value| {
        let tags = old.get("spec")?.get("images")?.get(image)?.get("tags")?.as_array()?;
        let same = |known: &&Value| ["tag", "version"].iter().all(|field| known.get(field) == tag.get(field));
        tags.iter().find(same)?.get("createdAt").map(Value::to_string)
    };
    let now = json_patch::string(&rfc3339(now));
    let root = Place::new(&value, Pointer::root());
    let Some(images) = root.child("spec").and_then(|spec| spec.child("images")) else { return Ok(patch) };
    for name in images.value().as_object().into_iter().flat_map(|images| images.keys()) {
        for tag in images.child(name).into_iter().flat_map(|image| image.list("tags")) {
            let created = known(name, tag.value()).unwrap_or_else(|| now.clone());
            tag.default_json("createdAt", &created, &mut patch);
            default_pull_policy(&tag, &mut patch);
        }
    }
    sort(object, &mut patch)?;
    Ok(patch)
}

/// Sorts the tags of each image, as they are after the patch.
fn sort(object: &str, patch: &mut Patch) -> Result<(), Denial> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Lens<'a> {
        #[serde(borrow)]
        spec: Spec<'a>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec<'a> {
        #[serde(borrow)]
        images: BTreeMap<String, Option<Image<'a>>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Image<'a> {
        #[serde(borrow)]
        tags: Option<Vec<&'a RawValue>>,
    }
    #[derive(Deserialize)]
    struct Tag {
        #[serde(default)]
        tag: String,
    }
    let completed = json_patch::apply(object, patch).map_err(refused)?;
    let lens: Lens<'_> = serde_json::from_str(&completed).map_err(refused)?;
    for (name, image) in &lens.spec.images {
        let key =
            |raw: &&RawValue| serde_json::from_str::<Tag>(raw.get()).map(|tag| tag.tag).unwrap_or_default();
        let tags = image.as_ref().and_then(|image| image.tags.as_deref()).unwrap_or_default();
        if tags.is_sorted_by_key(key) {
            continue;
        }
        let mut sorted = tags.to_vec();
        sorted.sort_by_cached_key(key);
        let texts: Vec<&str> = sorted.iter().map(|tag| tag.get()).collect();
        let pointer = Pointer::from_escaped("/spec/images").key(name).key("tags");
        patch.replace(pointer, format!("[{}]", texts.join(",")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn defaulted(object: &Value) -> Value {
        let text = object.to_string();
        let patch = default(&text, None, Timestamp::UNIX_EPOCH).unwrap();
        serde_json::from_str(&json_patch::apply(&text, &patch).unwrap()).unwrap()
    }

    #[test]
    fn tags_are_completed_and_sorted() {
        let object = json!({"spec": {"images": {"a/b": {"tags": [
            {"tag": "b", "pullPolicy": {"timeoutSeconds": 5}},
            {"tag": "a", "createdAt": "2026-01-01T00:00:00Z", "pullPolicy": {"backoffLimit": 0}},
        ]}, "empty": {"tags": []}, "none": {}}}});
        let after = defaulted(&object);
        let tags = json!([
            {"tag": "a", "createdAt": "2026-01-01T00:00:00Z", "pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 600}},
            {"tag": "b", "createdAt": "1970-01-01T00:00:00Z", "pullPolicy": {"timeoutSeconds": 5, "backoffLimit": 3}},
        ]);
        assert_eq!(after["spec"]["images"]["a/b"]["tags"], tags);
        assert!(default(&after.to_string(), None, Timestamp::MAX).unwrap().is_empty());
    }

    #[test]
    fn a_task_that_is_applied_again_keeps_its_time() {
        let node = |tags: Value| json!({"spec": {"images": {"a": {"tags": tags}}}}).to_string();
        let stored = node(json!([{"tag": "1", "version": 2, "createdAt": "2026-01-01T00:00:00Z"}]));
        for (tag, created) in [
            (json!({"tag": "1", "version": 2}), "2026-01-01T00:00:00Z"),
            (json!({"tag": "1", "version": 3}), "1970-01-01T00:00:00Z"),
            (json!({"tag": "2", "version": 2}), "1970-01-01T00:00:00Z"),
        ] {
            let new = node(json!([tag]));
            let patch = default(&new, Some(&stored), Timestamp::UNIX_EPOCH).unwrap();
            let after: Value = serde_json::from_str(&json_patch::apply(&new, &patch).unwrap()).unwrap();
            assert_eq!(after["spec"]["images"]["a"]["tags"][0]["createdAt"], created, "{tag}");
        }
    }

    #[test]
    fn what_has_no_images_is_left_alone() {
        for object in ["{}", r#"{"spec":null}"#, r#"{"spec":{}}"#] {
            assert!(default(object, None, Timestamp::UNIX_EPOCH).unwrap().is_empty(), "{object}");
        }
        for object in ["{", "[]"] {
            assert_eq!(default(object, None, Timestamp::UNIX_EPOCH).unwrap_err().code, 400);
        }
    }
}
