//! How often containers had restarted when their images changed. It says that a container was replaced where
//! the image shows nothing: another tag of the same content, which the runtime continues to report by its first
//! name. The state (docs/behaviour/in-place-update.md#state-annotation) has no place for it, so it has an
//! annotation of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::go_json::Seconds;
use crate::observed::ObservedPod;
use crate::write::PodWrite;

/// On a Pod: the restarts of containers when the update in place changed them, as JSON.
const ANNOTATION: &str = "kutter.io/inplace-update-restarts";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Restarts {
    /// Of the update that this is about, which its state has too.
    revision: String,
    update_timestamp: Seconds,
    restart_counts: BTreeMap<String, i32>,
}

/// What was recorded by the update to `revision` that began at `began`: what an earlier one left says nothing
/// about it.
pub(super) fn recorded(pod: &ObservedPod, revision: &str, began: Seconds) -> BTreeMap<String, i32> {
    let text = pod.annotation(ANNOTATION);
    let restarts: Restarts = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let is_of_this = restarts.revision == revision && restarts.update_timestamp == began;
    if is_of_this { restarts.restart_counts } else { BTreeMap::new() }
}

/// Writes the restarts that the update to `revision` counted, which began at `began`.
pub(super) fn record(
    pod: &ObservedPod,
    revision: &str,
    began: Seconds,
    restart_counts: &BTreeMap<String, i32>,
    write: &mut PodWrite,
) {
    if !restart_counts.is_empty() {
        let restarts = Restarts {
            revision: revision.to_owned(),
            update_timestamp: began,
            restart_counts: restart_counts.clone(),
        };
        // Texts and numbers in a map with text keys only: writing them as JSON cannot fail.
        write.set_annotation(ANNOTATION, serde_json::to_string(&restarts).unwrap_or_default());
    } else if pod.annotation(ANNOTATION).is_some() {
        write.remove_annotation(ANNOTATION);
    }
}
