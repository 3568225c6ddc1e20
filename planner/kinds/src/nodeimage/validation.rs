//! What a NodeImage may say (docs/behaviour/images.md#validation-of-nodeimages).

use std::collections::{BTreeMap, BTreeSet};

use api::kinds::nodeimage::{API_VERSION, NodeImage};
use serde::Deserialize;

use crate::workload::image_task::MOST_IMAGES;
use crate::workload::submitted::read;
use values::verdict::{Denial, Verdict, refused};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Submitted {
    spec: Option<Spec>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    images: Option<BTreeMap<String, Option<Image>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Image {
    tags: Option<Vec<Tag>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tag {
    tag: String,
    created_at: Option<String>,
    version: Option<i64>,
    pull_policy: Option<PullPolicy>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PullPolicy {
    ttl_seconds_after_finished: Option<i32>,
}

/// Answers a CREATE or UPDATE request. The first fault ends.
pub fn review(object: &str) -> Verdict {
    check(object).map_or_else(Verdict::from, |()| Verdict::allow())
}

fn check(object: &str) -> Result<(), Denial> {
    let Submitted { spec } = read(object, API_VERSION)?;
    // What readers of NodeImages can't read must not be stored.
    read::<NodeImage>(object, API_VERSION)?;
    let images = spec.and_then(|spec| spec.images).unwrap_or_default();
    if images.len() > MOST_IMAGES {
        let count = images.len();
        return Err(refused(format!("spec images length {count} can not be more than {MOST_IMAGES}")));
    }
    for (name, image) in &images {
        if name.is_empty() {
            return Err(refused("image name can not be empty"));
        }
        let mut seen = BTreeSet::new();
        for tag in image.iter().filter_map(|image| image.tags.as_ref()).flatten() {
            if tag.tag.is_empty() {
                return Err(refused(format!("tag for image {name} can not be empty")));
            }
            if !seen.insert(&tag.tag) {
                return Err(refused(format!("duplicated tag {} for image {name}", tag.tag)));
            }
            check_tag(&format!("{name}/{}", tag.tag), tag)?;
        }
    }
    Ok(())
}

fn check_tag(name: &str, tag: &Tag) -> Result<(), Denial> {
    if tag.created_at.as_deref().unwrap_or_default().is_empty() {
        return Err(refused(format!("createAt field for {name} can not be empty")));
    }
    if tag.version.is_some_and(|version| version < 0) {
        return Err(refused(format!("version for {name} can not be less than 0")));
    }
    let Some(policy) = &tag.pull_policy else {
        return Err(refused(format!("pullPolicy field for {name} must set")));
    };
    if policy.ttl_seconds_after_finished.is_none() {
        return Err(refused(format!("pullPolicy.ttlSecondsAfterFinished for {name} must set")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn message(images: &Value) -> Option<String> {
        let object = json!({"apiVersion": API_VERSION, "kind": "NodeImage", "spec": {"images": images}});
        review(&object.to_string()).denial().map(|denial| {
            assert_eq!(denial.code, 400);
            denial.message.clone()
        })
    }

    #[test]
    fn each_fault_has_its_message() {
        let sound = json!({"tag": "latest", "createdAt": "2026-01-01T00:00:00Z", "version": 0,
            "pullPolicy": {"ttlSecondsAfterFinished": 1}});
        let with = |field: &str, value: Value| {
            let mut tag = sound.clone();
            tag[field] = value;
            json!({"ubuntu": {"tags": [tag]}})
        };
        for (images, expected) in [
            (json!({"ubuntu": {"tags": [sound]}}), None),
            (json!({}), None),
            (json!({"": {"tags": []}}), Some("image name can not be empty")),
            (with("tag", json!("")), Some("tag for image ubuntu can not be empty")),
            (json!({"ubuntu": {"tags": [sound, sound]}}), Some("duplicated tag latest for image ubuntu")),
            (with("createdAt", Value::Null), Some("createAt field for ubuntu/latest can not be empty")),
            (with("version", json!(-1)), Some("version for ubuntu/latest can not be less than 0")),
            (with("pullPolicy", Value::Null), Some("pullPolicy field for ubuntu/latest must set")),
            (
                with("pullPolicy", json!({})),
                Some("pullPolicy.ttlSecondsAfterFinished for ubuntu/latest must set"),
            ),
        ] {
            assert_eq!(message(&images).as_deref(), expected, "{images}");
        }
    }

    #[test]
    fn a_node_has_at_most_256_images() {
        let images = |count: usize| {
            let images = (0..count).map(|number| (format!("image-{number}"), json!({"tags": []})));
            Value::Object(images.collect())
        };
        assert_eq!(message(&images(256)), None);
        assert_eq!(message(&images(257)).unwrap(), "spec images length 257 can not be more than 256");
    }

    #[test]
    fn other_versions_are_refused() {
        let denial = review(r#"{"apiVersion":"apps.kruise.io/v2"}"#).denial().cloned().unwrap();
        assert_eq!((denial.code, &*denial.message), (400, "unsupported version: apps.kruise.io/v2"));
        assert!(review(r#"{"apiVersion":"apps.kruise.io/v1alpha1","kind":"NodeImage"}"#).is_allowed());
    }
}
