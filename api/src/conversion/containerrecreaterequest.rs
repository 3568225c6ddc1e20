//! ContainerRecreateRequest (docs/behaviour/api-and-registration.md#conversion-of-containerrecreaterequest).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::metadata;
use crate::annotations::{CRR_SYNC_CONTAINER_STATUSES, CRR_UNREADY_ACQUIRED};
use crate::raw_object::{RawNode, RawObject};

const SNAPSHOT: &str = "containerStatusSnapshot";
const GRACE: &str = "PreRecreateGrace";
const GRACE_MESSAGE: &str = "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain";

/// The state of one container, as the annotation and the status field hold it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ContainerStatus {
    name: String,
    ready: bool,
    restart_count: i32,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    container_id: String,
}

pub(super) fn to_beta(object: &mut RawObject<'_>) {
    let snapshot =
        metadata::annotation(object, CRR_SYNC_CONTAINER_STATUSES).and_then(|text| read_snapshot(&text));
    let acquired = metadata::annotation(object, CRR_UNREADY_ACQUIRED).and_then(|text| whole_seconds(&text));
    // No status is made up where there is nothing to say
    // (docs/behaviour/api-and-registration.md#what-a-version-cannot-hold).
    object.edit_object("status", |status| {
        status.remove(SNAPSHOT);
        status.remove("conditions");
        if let Some(snapshot) = snapshot {
            status.insert(SNAPSHOT, snapshot);
        }
        if let Some(acquired) = acquired {
            let entries = [
                ("type", GRACE),
                ("status", "True"),
                ("reason", GRACE),
                ("message", GRACE_MESSAGE),
                ("lastTransitionTime", acquired.as_str()),
            ];
            let condition = entries.map(|(key, value)| (key.to_owned(), RawNode::string(value)));
            let condition = RawObject::from_entries(condition.into());
            status.insert("conditions", RawNode::array(vec![condition.into()]));
        }
    });
}

pub(super) fn to_alpha(object: &mut RawObject<'_>) {
    let mut snapshot = None;
    let mut acquired = None;
    if let Some(status) = object.object_mut("status") {
        snapshot = status
            .remove(SNAPSHOT)
            .and_then(|snapshot| read_snapshot(&snapshot.to_string()))
            .map(|snapshot| snapshot.to_string());
        let conditions = status.remove("conditions").and_then(RawNode::into_array).unwrap_or_default();
        acquired = conditions.into_iter().filter_map(RawNode::into_object).find_map(|condition| {
            let forced = condition.string("type").as_deref() == Some(GRACE)
                && condition.string("status").as_deref() == Some("True");
            let time = condition.string("lastTransitionTime").filter(|_| forced)?;
            whole_seconds(&time)
        });
    }
    metadata::mirror_annotation(object, CRR_SYNC_CONTAINER_STATUSES, snapshot.as_deref());
    metadata::mirror_annotation(object, CRR_UNREADY_ACQUIRED, acquired.as_deref());
}

/// The states in their usual form; `None` if there are none or the text is not a list of them.
fn read_snapshot<'a>(text: &str) -> Option<RawNode<'a>> {
    let states: Vec<ContainerStatus> = serde_json::from_str(text).ok()?;
    if states.is_empty() {
        return None;
    }
    serde_json::value::to_raw_value(&states).ok().map(RawNode::from_owned_raw)
}

/// A time in RFC 3339, UTC, without fractions, as Kubernetes writes it.
fn whole_seconds(text: &str) -> Option<String> {
    let time: Timestamp = text.parse().ok()?;
    Timestamp::from_second(time.as_second()).ok().map(|time| time.to_string())
}
