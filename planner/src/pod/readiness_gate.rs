//! The readiness gate `KruisePodReady`: which Pods get it (spec 10 §3), and the first condition that
//! releases them (spec 30 §10).

use api::conditions::KRUISE_POD_READY;
use api::features::Feature;
use jiff::Timestamp;
use serde::Deserialize;

use crate::pod::review::lens::condition_types;
use crate::pod::review::{Draft, Halt, ReviewContext};
use crate::text::json_patch::string;
use crate::text::moment::Moment;

/// Appends the gate to Pods of our own workloads, or to all with gate `KruisePodReadinessGate`.
pub(crate) fn mutate(draft: &mut Draft<'_>, context: &ReviewContext<'_>) -> Result<(), Halt> {
    if !draft.is_of_kruise_workload() && !context.gates.enabled(Feature::KruisePodReadinessGate) {
        return Ok(());
    }
    let gates = draft.readiness_gates;
    let present = condition_types(gates.unwrap_or("null"))
        .map_err(|error| Halt::bad_request(format!("spec.readinessGates: {error}")))?;
    if !present.iter().any(|condition| condition == KRUISE_POD_READY) {
        draft.append(
            "/spec/readinessGates",
            gates,
            vec![format!("{{\"conditionType\":\"{KRUISE_POD_READY}\"}}")],
        );
    }
    Ok(())
}

/// The parts of a Pod that decide over its first condition.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodFacts {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: Option<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    readiness_gates: Option<Vec<ReadinessGate>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadinessGate {
    condition_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The strategic merge patch of `pods/status` that adds condition `KruisePodReady=True` to a Pod which
/// has the gate but not the condition; `None` where nothing is to do (spec 30 §10). The Pod's UID goes
/// with it, so that a Pod recreated under the same name is not patched by mistake.
///
/// # Errors
/// The parser's error where `pod` is not a Pod.
pub fn initial_condition(pod: &str, now: Timestamp) -> Result<Option<String>, serde_json::Error> {
    let pod: PodFacts = serde_json::from_str(pod)?;
    let gated = pod.spec.readiness_gates.iter().flatten();
    let mut gated = gated.filter(|gate| gate.condition_type.as_deref() == Some(KRUISE_POD_READY));
    let mut known = pod.status.conditions.iter().flatten();
    if pod.metadata.deletion_timestamp.is_some()
        || gated.next().is_none()
        || known.any(|condition| condition.kind.as_deref() == Some(KRUISE_POD_READY))
    {
        return Ok(None);
    }
    let time = string(&Moment { now, seed: 0 }.rfc3339());
    let uid =
        pod.metadata.uid.map(|uid| format!("\"metadata\":{{\"uid\":{}}},", string(&uid))).unwrap_or_default();
    Ok(Some(format!(
        "{{{uid}\"status\":{{\"conditions\":[{{\"type\":\"{KRUISE_POD_READY}\",\"status\":\"True\",\"lastTransitionTime\":{time}}}]}}}}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(pod: &str) -> Option<String> {
        initial_condition(pod, Timestamp::UNIX_EPOCH).unwrap()
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
