//! The readiness gate `InPlaceUpdateReady`: it is false while the containers of a Pod change.

use api::conditions::IN_PLACE_UPDATE_READY;
use jiff::Timestamp;

use crate::observed::{ObservedPod, PodCondition};
use crate::ready_condition::recomputed_ready;
use crate::write::condition;

/// The conditions to write so that the Pod is not ready while its containers change; none where it says
/// so already or has no gate for it.
pub fn not_ready(pod: &ObservedPod, now: Timestamp) -> Vec<PodCondition> {
    if !pod.has_readiness_gate(IN_PLACE_UPDATE_READY) {
        return Vec::new();
    }
    let known = pod.condition(IN_PLACE_UPDATE_READY).filter(|known| &*known.status == "False");
    let gate = match known {
        Some(known) => known.clone(),
        None => condition(IN_PLACE_UPDATE_READY, "False", "StartInPlaceUpdate", "", now),
    };
    let ready = recomputed_ready(pod, &gate, now);
    known.is_none().then_some(gate).into_iter().chain(ready).collect()
}

/// The condition to write so that the gate does not hold the Pod back; `None` where it does not already.
/// A Pod that is not on a node yet can't become ready, so its first condition comes with what is written
/// when it is.
pub fn ready(pod: &ObservedPod, now: Timestamp) -> Option<PodCondition> {
    if !pod.has_readiness_gate(IN_PLACE_UPDATE_READY) {
        return None;
    }
    let Some(known) = pod.condition(IN_PLACE_UPDATE_READY) else {
        let scheduled = !pod.spec.node_name.is_empty();
        return scheduled.then(|| condition(IN_PLACE_UPDATE_READY, "True", "", "", now));
    };
    let was_true = &*known.status == "True";
    if was_true && known.reason.is_empty() && known.message.is_empty() {
        return None;
    }
    let mut condition = condition(IN_PLACE_UPDATE_READY, "True", "", "", now);
    if was_true && known.last_transition_time.is_some() {
        condition.last_transition_time = known.last_transition_time;
    }
    Some(condition)
}

/// The gate `InPlaceUpdateReady` does not hold the Pod back.
pub fn gate_is_open(pod: &ObservedPod) -> bool {
    pod.condition(IN_PLACE_UPDATE_READY).is_none_or(|condition| &*condition.status == "True")
}
