//! Events of StatefulSets (docs/behaviour/statefulset.md#events).

use std::fmt::Display;

use crate::workload::action::{Action, ClaimReason, Part, WriteReason};
use values::event::{Event, normal, warning};

/// The Event to record once this part of an action is done.
pub(super) fn success(set: &str, action: &Action, part: Part<'_>) -> Option<Event> {
    let of_pod = |reason, verb: &str, pod: &str| {
        Some(normal(reason, format!("{verb} Pod {pod} in StatefulSet {set} successful")))
    };
    let of_claim = |reason, verb: &str, claim: &str, pod: &str| {
        Some(normal(reason, format!("{verb} Claim {claim} Pod {pod} in StatefulSet {set} success")))
    };
    match (action, part) {
        (Action::CreatePod { name, .. }, Part::Itself) => of_pod("SuccessfulCreate", "create", name),
        (Action::CreatePod { name, .. }, Part::Claim(claim)) => {
            of_claim("SuccessfulCreate", "create", claim, name)
        }
        (Action::CreateClaim { pod, claim }, Part::Claim(_)) => {
            of_claim("SuccessfulCreate", "create", &claim.name, pod)
        }
        (Action::DeletePod { pod, .. }, Part::Itself) => of_pod("SuccessfulDelete", "delete", &pod.name),
        (Action::WriteClaim { claim, pod, reason: ClaimReason::Resize, .. }, Part::Itself) => {
            of_claim("SuccessfulResize", "resize", &claim.name, pod)
        }
        (Action::WritePod { pod, reason: WriteReason::KeepIdentity, .. }, Part::Itself) => {
            of_pod("SuccessfulUpdate", "update", &pod.name)
        }
        (_, Part::Itself) => action.success(),
        (_, Part::Claim(_)) => None,
    }
}

/// The Event to record where this part of an action failed.
pub(super) fn failure(set: &str, action: &Action, part: Part<'_>, error: &dyn Display) -> Option<Event> {
    let of_pod = |reason, verb: &str, pod: &str| {
        Some(warning(reason, format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}")))
    };
    let of_claim = |reason, verb: &str, claim: &str, pod: &str| {
        Some(warning(
            reason,
            format!("{verb} Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {error}"),
        ))
    };
    match (action, part) {
        (Action::CreatePod { name, .. }, Part::Itself) => of_pod("FailedCreate", "create", name),
        (Action::CreatePod { name, .. }, Part::Claim(claim)) => {
            of_claim("FailedCreate", "create", claim, name)
        }
        (Action::CreateClaim { pod, claim }, _) => of_claim("FailedCreate", "create", &claim.name, pod),
        (Action::DeletePod { pod, .. }, Part::Itself) => of_pod("FailedDelete", "delete", &pod.name),
        (Action::WriteClaim { claim, pod, reason: ClaimReason::Resize, .. }, _) => {
            of_claim("FailedResize", "resize", &claim.name, pod)
        }
        (Action::WriteClaim { pod, reason: ClaimReason::Owners, .. }, _) => {
            of_pod("FailedUpdate", "update", pod)
        }
        (Action::WritePod { pod, reason: WriteReason::KeepIdentity, .. }, _) => {
            of_pod("FailedUpdate", "update", &pod.name)
        }
        _ => action.failure(part, error),
    }
}
