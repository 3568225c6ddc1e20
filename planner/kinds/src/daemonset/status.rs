//! The status of a DaemonSet: what is on the Nodes (docs/behaviour/daemonset.md#status).

use api::kinds::daemonset::Status;

use super::working::{DaemonPod, Working};
use crate::workload::status::StatusPlan;
use pod::inplace::readiness::gate_is_open;
use pod::revision_labels::short_hash;

/// Counts Nodes. Of several Pods on a Node the first one counts.
pub(super) fn observe(working: &Working<'_>) -> StatusPlan<Status> {
    let set = working.set();
    let mut new = Status {
        collision_count: working.snapshot.collision_count.or(set.status.collision_count),
        conditions: set.status.conditions.clone(),
        observed_generation: set.metadata.generation,
        update_revision: short_hash(working.update.name()).to_owned(),
        ..Status::default()
    };
    let mut available = 0;
    for slot in working.slots.values() {
        let first = slot.pods.first();
        if !slot.fit.should_run {
            new.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        new.desired_number_scheduled += 1;
        let Some(pod) = first else { continue };
        new.current_number_scheduled += 1;
        new.number_ready += i32::from(pod.pod().is_ready());
        new.updated_number_scheduled += i32::from(pod.is_new);
        available += i32::from(is_available(working, pod));
    }
    let positive = |number: i32| Some(number).filter(|number| *number != 0);
    new.number_available = positive(available);
    new.number_unavailable = positive(new.desired_number_scheduled - available);
    StatusPlan::new(set, new, working.now)
}

/// Ready for long enough, and not under update in place.
pub(super) fn is_available(working: &Working<'_>, pod: &DaemonPod<'_>) -> bool {
    let pod = pod.pod();
    gate_is_open(pod) && pod.is_ready_for(working.settings.min_ready_seconds, working.now)
}
