//! Events of BroadcastJobs (docs/behaviour/broadcastjob.md#events).

use std::fmt::Display;

use crate::workload::action::{Action, Part};
use values::event::{Event, normal, warning};

/// The Event to record once this part of an action is done.
pub(super) fn success(action: &Action, part: Part<'_>) -> Option<Event> {
    match (action, part) {
        (Action::CreatePod { name, .. }, Part::Itself) => {
            Some(normal("SuccessfulCreate", format!("Created pod: {name}")))
        }
        (Action::DeletePod { pod, .. }, Part::Itself) => {
            Some(normal("SuccessfulDelete", format!("Delete pod: {}", pod.name)))
        }
        _ => None,
    }
}

/// The Event to record where this part of an action failed.
pub(super) fn failure(action: &Action, part: Part<'_>, error: &dyn Display) -> Option<Event> {
    match action {
        Action::CreatePod { .. } => Some(warning("FailedCreate", format!("Error creating: {error}"))),
        _ => action.failure(part, error),
    }
}
