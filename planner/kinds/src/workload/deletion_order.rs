//! Which of two Pods Kubernetes deletes first when there are too many (`ActivePods` of its ReplicaSet controller).

use std::cmp::Reverse;

use jiff::Timestamp;

use pod::observed::ObservedPod;

/// What the order reads of a Pod; smaller comes first. Kinds with rules of their own in between compare the parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeletionOrder<'a> {
    /// Bound to a node, and the phase.
    pub(crate) placed: (bool, u8),
    pub(crate) ready: bool,
    /// Since when it is ready, restarts, creation, name.
    pub(crate) age: (Reverse<Timestamp>, Reverse<i32>, Reverse<Timestamp>, &'a str),
}

impl<'a> DeletionOrder<'a> {
    pub(crate) fn of(pod: &'a ObservedPod) -> Self {
        let phase = match &*pod.status.phase {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let ready = pod.condition("Ready").filter(|condition| &*condition.status == "True");
        // A time that is not known counts as the latest; among Pods that are not ready there is none.
        let since = ready.map_or(Timestamp::MIN, |ready| ready.since().unwrap_or(Timestamp::MAX));
        let restarts = pod.status.container_statuses.iter().map(|status| status.restart_count).max();
        let created = pod.metadata.created().unwrap_or(Timestamp::MAX);
        Self {
            placed: (!pod.spec.node_name.is_empty(), phase),
            ready: ready.is_some(),
            age: (Reverse(since), Reverse(restarts.unwrap_or(0)), Reverse(created), &pod.metadata.name),
        }
    }
}
