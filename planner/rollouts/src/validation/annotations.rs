//! Annotations that do nothing with the value that they have.

use std::collections::BTreeMap;

use api::annotations::{ROLLBACK_AFTER_SECONDS, ROLLBACK_FAILURE_SHARE};
use serde::Deserialize;

use crate::rollout::{most_failures, seconds};

/// Warnings about values that a write brings.
pub(super) fn warnings(new: &str, old: Option<&str>) -> Vec<String> {
    let [new, old] = [Some(new), old].map(|object| object.map(annotations).unwrap_or_default());
    let ignored = |annotation: &str, is_understood: fn(&str) -> bool, wanted: &str| {
        let value = new.get(annotation).filter(|value| old.get(annotation) != Some(value))?;
        let path = format!("metadata.annotations[{annotation}]");
        (!is_understood(value)).then(|| format!("{path}: {value:?} is no {wanted} and has no effect"))
    };
    let deadline =
        ignored(ROLLBACK_AFTER_SECONDS, |value| seconds(value).is_some(), "positive number of seconds");
    let share =
        ignored(ROLLBACK_FAILURE_SHARE, |value| most_failures(value, 100).is_some(), "share such as 20%");
    deadline.into_iter().chain(share).collect()
}

fn annotations(object: &str) -> BTreeMap<String, String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        annotations: Option<BTreeMap<String, String>>,
    }
    let object: Object = serde_json::from_str(object).unwrap_or_default();
    object.metadata.annotations.unwrap_or_default()
}
