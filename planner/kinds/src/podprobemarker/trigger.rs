//! Which changes concern which nodes and markers (docs/behaviour/probes.md#what-wakes-the-controllers).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::nodepodprobe::NodePodProbe;

use super::SEPARATOR;
use super::liveness::has_moved;
use super::marker::{Marker, is_probed};
use pod::observed::ObservedPod;

/// Changes of Pods come in numbers: those of this time are written together.
pub const BURST: Duration = Duration::from_millis(200);

/// Whether the change of a Pod makes a difference to what is probed in it, as these markers of its namespace ask. Other
/// labels than those of selectors do not: somebody else may want them as they are now.
pub fn of_pod(old: Option<&ObservedPod>, new: Option<&ObservedPod>, markers: &[Arc<Marker>]) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    is_moved(old, new) || markers.iter().any(|marker| is_reselected(marker, old, new))
}

/// Whether the change of a Pod of its namespace makes a difference to a marker. With `conditions` the results of its
/// probes do, which platforms without an agent write.
pub fn concerns(
    marker: &Marker,
    (old, new): (Option<&ObservedPod>, Option<&ObservedPod>),
    conditions: bool,
) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return old.or(new).is_some_and(|pod| marker.selects(&pod.metadata.labels));
    };
    let is_changed = || is_moved(old, new) || conditions && old.status.conditions != new.status.conditions;
    is_reselected(marker, old, new) || marker.selects(&new.metadata.labels) && is_changed()
}

/// Whether a Pod is probed elsewhere than before, or not any more, or only now.
fn is_moved(old: &ObservedPod, new: &ObservedPod) -> bool {
    is_probed(old) != is_probed(new)
        || old.metadata.uid != new.metadata.uid
        || old.spec.node_name != new.spec.node_name
        || old.status.pod_ip != new.status.pod_ip
}

/// Whether a marker is for a Pod that it was not for before, or the other way round.
fn is_reselected(marker: &Marker, old: &ObservedPod, new: &ObservedPod) -> bool {
    let (old, new) = (&old.metadata.labels, &new.metadata.labels);
    old != new && marker.selects(old) != marker.selects(new)
}

/// Whether containers of a Pod with liveness probes have started, whose failures counted for nothing before.
pub fn of_containers(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    has_moved(new) && old.status.container_statuses != new.status.container_statuses
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
        names.map(move |(marker, _)| format!("{}/{marker}", pod.namespace))
    });
    of_pod.collect()
}
