//! The readiness gate `KruisePodReady`: which Pods get it, and the patch with the first condition for Pods
//! whose workload does not write it.

use api::conditions::KRUISE_POD_READY;
use api::features::Feature;
use jiff::Timestamp;

use crate::kruise_pod_ready;
use crate::observed::ObservedPod;
use crate::review::lens::condition_types;
use crate::review::{Draft, ReviewContext};
use values::json_patch::string;
use values::moment::Moment;
use values::verdict::{Denial, refused};

/// Appends the gate to Pods of our own workloads, or to all with gate `KruisePodReadinessGate`.
pub fn mutate(draft: &mut Draft<'_>, context: &ReviewContext<'_>) -> Result<(), Denial> {
    if !draft.is_of_kruise_workload() && !context.gates.enabled(Feature::KruisePodReadinessGate) {
        return Ok(());
    }
    let gates = draft.readiness_gates;
    let present = condition_types(gates.unwrap_or("null"))
        .map_err(|error| refused(format!("spec.readinessGates: {error}")))?;
    if !present.iter().any(|condition| condition == KRUISE_POD_READY) {
        draft.append(
            "/spec/readinessGates",
            gates,
            vec![format!("{{\"conditionType\":\"{KRUISE_POD_READY}\"}}")],
        );
    }
    Ok(())
}

/// The strategic merge patch of `pods/status` that adds the first condition of the gate to a Pod for which it
/// is due ([`kruise_pod_ready::first`]). The Pod's UID is sent with it, so that a Pod recreated under the same
/// name is not patched by mistake. It names no version: whatever else changes in the Pod, the condition is due.
pub fn initial_condition(pod: &ObservedPod, now: Timestamp) -> Option<String> {
    kruise_pod_ready::first(pod, now)?;
    let time = string(&Moment { now, seed: 0 }.rfc3339());
    let uid = match &*pod.metadata.uid {
        "" => String::new(),
        uid => format!("\"metadata\":{{\"uid\":{}}},", string(uid)),
    };
    Some(format!(
        "{{{uid}\"status\":{{\"conditions\":[{{\"type\":\"{KRUISE_POD_READY}\",\"status\":\"True\",\"lastTransitionTime\":{time}}}]}}}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(pod: &str) -> Option<String> {
        initial_condition(&ObservedPod::read(pod).unwrap(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_gated_pod_without_the_condition_becomes_ready() {
        assert_eq!(
            condition(r#"{"metadata":{"uid":"u"},"spec":{"readinessGates":[{"conditionType":"KruisePodReady"}]},"status":{"conditions":[{"type":"Ready"}]}}"#).unwrap(),
            r#"{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"KruisePodReady","status":"True","lastTransitionTime":"1970-01-01T00:00:00Z"}]}}"#
        );
    }

    #[test]
    fn other_pods_are_left_alone() {
        for pod in [
            r#"{}"#,
            r#"{"spec":{"readinessGates":[{"conditionType":"Other"}]}}"#,
            r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"readinessGates":[{"conditionType":"KruisePodReady"}]}}"#,
            r#"{"spec":{"readinessGates":[{"conditionType":"KruisePodReady"}]},"status":{"conditions":[{"type":"KruisePodReady","status":"False"}]}}"#,
        ] {
            assert_eq!(condition(pod), None, "{pod}");
        }
    }
}
