//! The condition `Ready`, recomputed when a readiness gate turns false, so that endpoints need not wait for
//! the kubelet.

use jiff::Timestamp;

use crate::observed::{ObservedPod, PodCondition};
use crate::write::condition;

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
