//! The annotation `apps.kruise.io/runtime-containers-meta`: what the node agent saw of running containers
//! (docs/behaviour/in-place-update.md#report-of-the-node-agent). Unreadable, it says nothing.

use api::annotations::RUNTIME_CONTAINERS_META;
use serde::{Deserialize, Serialize};

use super::go_json::null_is_default;
use crate::observed::{Container, ObservedPod};

/// The report of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Reported {
    /// What was observed of each container.
    #[serde(deserialize_with = "null_is_default")]
    pub containers: Vec<ReportedContainer>,
}

/// A container as it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedContainer {
    /// Name of the container.
    pub name: String,
    /// Identity of the running container, with the runtime in front, as in the status of the Pod.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// How often the container has been restarted.
    pub restart_count: i32,
    /// Hashes of what the container runs with.
    pub hashes: Hashes,
}

/// The hashes of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hashes {
    /// The kubelet's hash of the container.
    pub plain_hash: u64,
    /// Absent where it is 0: it is not known yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub extracted_env_from_metadata_hash: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Reported {
    /// What a Pod carries.
    pub fn of(pod: &ObservedPod) -> Self {
        let text = pod.annotation(RUNTIME_CONTAINERS_META);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// What was observed of the container that runs now; by name, for the kubelet sorts statuses.
    pub(super) fn current(&self, pod: &ObservedPod, container: &Container) -> Option<&Hashes> {
        let status = pod.container_status(&container.name)?;
        let reported = self.containers.iter().find(|reported| *reported.name == *container.name)?;
        (status.container_id == *reported.container_id).then_some(&reported.hashes)
    }
}
