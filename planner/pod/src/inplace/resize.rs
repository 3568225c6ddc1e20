//! What the kubelet tells of a resize that it can't do (docs/behaviour/in-place-update.md#a-resize-that-cant-be-done).

use std::fmt;

use jiff::Timestamp;

use crate::observed::ObservedPod;

/// Why a resize does not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It can never be done on this Node.
    Infeasible,
    /// The Node has no room for it now.
    Deferred,
    /// It was begun, and fails.
    Error,
}

/// A resize that does not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeProblem {
    /// Why.
    pub obstacle: Obstacle,
    /// The kubelet's words.
    pub message: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

impl fmt::Display for ResizeProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.obstacle {
            Obstacle::Infeasible => "its resize is not possible on its node",
            Obstacle::Deferred => "its resize waits for room on its node",
            Obstacle::Error => "its resize fails",
        })?;
        if self.message.is_empty() { Ok(()) } else { write!(formatter, ": {}", self.message) }
    }
}

impl ResizeProblem {
    /// What the conditions of the Pod tell of its present spec.
    pub(super) fn of(pod: &ObservedPod) -> Option<Self> {
        // Until then they are about an earlier one.
        if !pod.spec_is_observed() {
            return None;
        }
        let kinds = [
            ("PodResizePending", "Infeasible", Obstacle::Infeasible),
            ("PodResizePending", "Deferred", Obstacle::Deferred),
            ("PodResizeInProgress", "Error", Obstacle::Error),
        ];
        kinds.into_iter().find_map(|(kind, reason, obstacle)| {
            let told =
                pod.condition(kind).filter(|told| &*told.status == "True" && &*told.reason == reason)?;
            Some(Self { obstacle, message: told.message.to_string(), since: told.since() })
        })
    }
}
