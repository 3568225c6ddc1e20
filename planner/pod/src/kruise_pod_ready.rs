//! The readiness gate `KruisePodReady`, which several programs can hold shut, each with a key of its own
//! (docs/behaviour/lifecycle.md#kruisepodready).
//!
//! The keys are in the condition's message, as a sorted JSON list; the condition is true once the list is
//! empty. A message that can't be read counts as an empty list.

use api::conditions::KRUISE_POD_READY;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::observed::{ObservedPod, PodCondition};
use crate::ready_condition::recomputed_ready;
use crate::write::{PodWrite, Target, condition};

/// Who holds the gate shut, and for what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotReadyKey {
    /// The program, such as `Lifecycle`.
    pub user_agent: String,
    /// The reason, such as `preDeleteHook`.
    pub key: String,
}

impl NotReadyKey {
    /// A key of `user_agent`.
    pub fn new(user_agent: &str, key: impl Into<String>) -> Self {
        Self { user_agent: user_agent.to_owned(), key: key.into() }
    }
}

/// The keys that hold the Pod's gate shut.
pub fn keys(pod: &ObservedPod) -> Vec<NotReadyKey> {
    let condition = pod.condition(KRUISE_POD_READY);
    condition.and_then(|condition| serde_json::from_str(&condition.message).ok()).unwrap_or_default()
}

/// The first condition, with which the gate does not hold the Pod back; `None` where it is not due: the Pod
/// has no such gate, has the condition already, or is being deleted.
pub fn first(pod: &ObservedPod, now: Timestamp) -> Option<PodCondition> {
    let is_due = pod.metadata.deletion_timestamp.is_none()
        && pod.has_readiness_gate(KRUISE_POD_READY)
        && pod.condition(KRUISE_POD_READY).is_none();
    is_due.then(|| condition(KRUISE_POD_READY, "True", "", "", now))
}

/// The conditions to write so that `key` holds the Pod back; none where it does already or the Pod has no
/// such gate.
pub fn added(pod: &ObservedPod, key: &NotReadyKey, now: Timestamp) -> Vec<PodCondition> {
    let mut keys = keys(pod);
    let known = keys.contains(key);
    if !pod.has_readiness_gate(KRUISE_POD_READY) || (known && !pod.condition_is_true(KRUISE_POD_READY)) {
        return Vec::new();
    }
    if !known {
        keys.push(key.clone());
    }
    let gate = gate("False", keys, now);
    let ready = recomputed_ready(pod, &gate, now);
    [gate].into_iter().chain(ready).collect()
}

/// The condition to write so that `key` does not hold the Pod back any more; `None` where it does not.
pub fn removed(pod: &ObservedPod, key: &NotReadyKey, now: Timestamp) -> Option<PodCondition> {
    all_removed(pod, std::slice::from_ref(key), now)
}

/// [`removed`], of several keys at once.
pub fn all_removed(pod: &ObservedPod, removed: &[NotReadyKey], now: Timestamp) -> Option<PodCondition> {
    let mut keys = keys(pod);
    if !pod.has_readiness_gate(KRUISE_POD_READY) || !keys.iter().any(|key| removed.contains(key)) {
        return None;
    }
    keys.retain(|known| !removed.contains(known));
    let status = if keys.is_empty() { "True" } else { "False" };
    Some(gate(status, keys, now))
}

fn gate(status: &str, mut keys: Vec<NotReadyKey>, now: Timestamp) -> PodCondition {
    keys.sort();
    // A list of texts: writing it as JSON cannot fail.
    let message = serde_json::to_string(&keys).unwrap_or_default();
    condition(KRUISE_POD_READY, status, "", &message, now)
}

/// [`added`], as a write of its own.
pub fn add(pod: &ObservedPod, key: &NotReadyKey, now: Timestamp) -> Option<PodWrite> {
    let conditions = added(pod, key, now);
    (!conditions.is_empty()).then(|| PodWrite { conditions, ..PodWrite::to(Target::Status) })
}

/// [`removed`], as a write of its own.
pub fn remove(pod: &ObservedPod, key: &NotReadyKey, now: Timestamp) -> Option<PodWrite> {
    removed(pod, key, now).map(|gate| PodWrite { conditions: vec![gate], ..PodWrite::to(Target::Status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"spec":{"readinessGates":[{"conditionType":"KruisePodReady"}]},"status":{"conditions":[
        {"type":"ContainersReady","status":"True"},{"type":"Ready","status":"True"}]}}"#;

    fn pod() -> ObservedPod {
        ObservedPod::read(POD).unwrap()
    }

    fn message(pod: &ObservedPod) -> (&str, &str) {
        let condition = pod.condition(KRUISE_POD_READY).unwrap();
        (&condition.status, &condition.message)
    }

    #[test]
    fn scenario_24_the_gate_opens_when_the_last_key_is_gone() {
        let (first, second) = (NotReadyKey::new("Lifecycle", "preDeleteHook"), NotReadyKey::new("A", "n/r"));
        let now = Timestamp::UNIX_EPOCH;
        let mut pod = pod();
        add(&pod, &first, now).unwrap().apply(&mut pod);
        assert_eq!(message(&pod), ("False", r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#));
        assert_eq!(&*pod.condition("Ready").unwrap().reason, "ReadinessGatesNotReady");
        assert_eq!(pod.condition("Ready").unwrap().since(), Some(now));
        assert_eq!(add(&pod, &first, now), None);
        add(&pod, &second, now).unwrap().apply(&mut pod);
        let both = r#"[{"userAgent":"A","key":"n/r"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#;
        assert_eq!(message(&pod), ("False", both));
        remove(&pod, &first, now).unwrap().apply(&mut pod);
        assert_eq!(message(&pod), ("False", r#"[{"userAgent":"A","key":"n/r"}]"#));
        remove(&pod, &second, now).unwrap().apply(&mut pod);
        assert_eq!(message(&pod), ("True", "[]"));
        assert!(!pod.is_ready(), "Ready is left to the kubelet");
        assert_eq!(remove(&pod, &second, now), None);
    }

    #[test]
    fn pods_without_the_gate_are_left_alone() {
        let pod = ObservedPod::default();
        assert_eq!(add(&pod, &NotReadyKey::new("A", "b"), Timestamp::UNIX_EPOCH), None);
        assert_eq!(remove(&pod, &NotReadyKey::new("A", "b"), Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn a_message_that_is_no_list_is_an_empty_one() {
        let mut pod = pod();
        let odd = condition(KRUISE_POD_READY, "True", "", "hello", Timestamp::UNIX_EPOCH);
        PodWrite { conditions: vec![odd], ..PodWrite::to(Target::Status) }.apply(&mut pod);
        add(&pod, &NotReadyKey::new("A", "b"), Timestamp::UNIX_EPOCH).unwrap().apply(&mut pod);
        assert_eq!(message(&pod), ("False", r#"[{"userAgent":"A","key":"b"}]"#));
    }
}
