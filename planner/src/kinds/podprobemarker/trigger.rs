//! Which changes concern which nodes and markers (docs/behaviour/probes.md#what-wakes-the-controllers).

use std::collections::BTreeSet;
use std::time::Duration;

use api::kinds::nodepodprobe::NodePodProbe;

use super::SEPARATOR;
use super::liveness::has_moved;
use super::marker::{Marker, is_probed};
use crate::pod::observed::ObservedPod;

/// Changes of Pods come in numbers: those of this time are written together.
pub const BURST: Duration = Duration::from_millis(200);

/// Whether the change of a Pod makes a difference to what is probed.
pub fn of_pod(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    is_probed(old) != is_probed(new)
        || old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.spec.node_name != new.spec.node_name
        || old.status.pod_ip != new.status.pod_ip
}

/// Whether containers of a Pod with liveness probes have started, whose failures counted for nothing before.
pub fn of_containers(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    has_moved(new) && old.status.container_statuses != new.status.container_statuses
}

/// Whether another program may have written the result of a probe, as platforms without an agent do.
pub fn of_conditions(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    old.status.conditions != new.status.conditions
}

/// Whether the change of a marker makes a difference: what its status says is our own word.
pub fn of_marker(old: Option<&Marker>, new: Option<&Marker>) -> bool {
    let (Some(old), Some(new)) = (old.map(|old| &old.object), new.map(|new| &new.object)) else {
        return true;
    };
    old.spec != new.spec
        || old.metadata.uid != new.metadata.uid
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.metadata.finalizers != new.metadata.finalizers
}

/// Namespace and name, in one word, of each marker whose probes a NodePodProbe has.
pub fn markers_of(known: &NodePodProbe) -> BTreeSet<String> {
    let of_pod = known.spec.pod_probes.iter().flat_map(|pod| {
        let names = pod.probes.iter().filter_map(|probe| probe.name.split_once(SEPARATOR));
        // Liveness probes belong to no marker.
        let names = names.filter(|(marker, _)| !marker.is_empty());
        names.map(|(marker, _)| format!("{}/{marker}", pod.namespace))
    });
    of_pod.collect()
}
