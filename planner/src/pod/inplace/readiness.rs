//! The readiness gate `InPlaceUpdateReady`, and `Ready` recomputed when a gate turns false, so that
//! endpoints need not wait for the kubelet (spec 30 §9).

use api::conditions::IN_PLACE_UPDATE_READY;
use jiff::Timestamp;

use crate::pod::observed::{ObservedPod, PodCondition};
use crate::pod::write::condition;

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

/// `Ready` as the kubelet will find it once the condition `changed` is written; `None` where it stays.
pub(crate) fn recomputed_ready(
    pod: &ObservedPod,
    changed: &PodCondition,
    now: Timestamp,
) -> Option<PodCondition> {
    let known = pod.condition("Ready")?;
    if !pod.condition_is_true("ContainersReady") {
        return None;
    }
    let problems: Vec<String> = pod
        .spec
        .readiness_gates
        .iter()
        .filter_map(|gate| {
            let kind = &*gate.condition_type;
            let found = if *changed.kind == *kind { Some(changed) } else { pod.condition(kind) };
            match found.map(|condition| &*condition.status) {
                None => {
                    Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist."))
                }
                Some("True") => None,
                Some(status) => {
                    Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but {status}"))
                }
            }
        })
        .collect();
    let (status, reason) =
        if problems.is_empty() { ("True", "") } else { ("False", "ReadinessGatesNotReady") };
    let message = problems.join(", ");
    if &*known.status == status && &*known.reason == reason && *known.message == *message {
        return None;
    }
    let mut ready = condition("Ready", status, reason, &message, now);
    if &*known.status == status && known.last_transition_time.is_some() {
        ready.last_transition_time = known.last_transition_time;
    }
    Some(ready)
}
