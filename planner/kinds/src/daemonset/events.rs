//! Events of DaemonSets, in the words of the built-in controller (docs/behaviour/daemonset.md#events).

use std::fmt::Display;

use crate::workload::action::{Action, Part, WriteReason};
use values::event::{Event, normal, warning};

/// The Event to record once this part of an action is done.
pub(super) fn success(action: &Action, part: Part<'_>) -> Option<Event> {
    match (action, part) {
        (Action::CreatePod { name, .. }, Part::Itself) => {
            Some(normal("SuccessfulCreate", format!("Created pod: {name}")))
        }
        (Action::DeletePod { pod, .. }, Part::Itself) => {
            Some(normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name)))
        }
        (Action::WritePod { pod, reason: WriteReason::UpdateInPlace, .. }, Part::Itself) => {
            let message = format!("successfully update pod {} in-place", pod.name);
            Some(normal("SuccessfulUpdatePodInPlace", message))
        }
        (_, Part::Itself) => action.success(),
        (_, Part::Claim(_)) => None,
    }
}

/// The Event to record where this part of an action failed.
pub(super) fn failure(action: &Action, part: Part<'_>, error: &dyn Display) -> Option<Event> {
    match action {
        Action::CreatePod { .. } => Some(warning("FailedCreate", format!("Error creating: {error}"))),
        Action::DeletePod { .. } | Action::WritePod { reason: WriteReason::PrepareDelete, .. } => {
            Some(warning("FailedDelete", format!("Error deleting: {error}")))
        }
        _ => action.failure(part, error),
    }
}
