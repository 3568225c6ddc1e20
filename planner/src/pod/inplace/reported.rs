//! The annotation `apps.kruise.io/runtime-containers-meta`: what the node agent saw of running containers
//! (docs/behaviour/in-place-update.md#report-of-the-node-agent). Unreadable, it says nothing.

use api::annotations::RUNTIME_CONTAINERS_META;
use serde::{Deserialize, Serialize};

use super::go_json::null_is_default;
use crate::pod::observed::{Container, ObservedPod};

/// The report of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Reported {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) containers: Vec<ReportedContainer>,
}

/// A container as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReportedContainer {
    pub(crate) name: String,
    #[serde(rename = "containerID")]
    pub(crate) container_id: String,
    pub(crate) restart_count: i32,
    pub(crate) hashes: Hashes,
}

/// The hashes of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Hashes {
    pub(crate) plain_hash: u64,
    /// Absent where it is 0: it is not known yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) extracted_env_from_metadata_hash: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Reported {
    /// What a Pod carries.
    pub(crate) fn of(pod: &ObservedPod) -> Self {
        let text = pod.annotation(RUNTIME_CONTAINERS_META);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// What was seen of the container that runs now; by name, for the kubelet sorts statuses.
    pub(super) fn current(&self, pod: &ObservedPod, container: &Container) -> Option<&Hashes> {
        let status = pod.container_status(&container.name)?;
        let reported = self.containers.iter().find(|reported| *reported.name == *container.name)?;
        (*reported.container_id == *status.container_id).then_some(&reported.hashes)
    }
}
