//! Liveness probes that the agent runs instead of the kubelet (docs/behaviour/probes.md#enhanced-liveness-probes).
//!
//! Admission has moved them from the containers into an annotation. In a NodePodProbe they have names without a
//! marker, such as `#main`.

use api::Raw;
use api::annotations::CONTAINER_PROBE_CONTEXT;
use serde::Deserialize;

use super::SEPARATOR;
use pod::observed::ObservedPod;

/// The liveness probe of a container.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Moved {
    #[serde(rename = "name")]
    pub(super) container: String,
    pub(super) liveness_probe: Raw,
}

/// Whether the agent runs liveness probes of a Pod.
pub fn has_moved(pod: &ObservedPod) -> bool {
    pod.annotation(CONTAINER_PROBE_CONTEXT).is_some()
}

/// The probes that were moved; none where a user has spoilt the annotation.
pub(super) fn moved(pod: &ObservedPod) -> Vec<Moved> {
    let list = pod.annotation(CONTAINER_PROBE_CONTEXT);
    list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}

/// How a NodePodProbe calls the liveness probe of a container.
pub(super) fn name(container: &str) -> String {
    format!("{SEPARATOR}{container}")
}
