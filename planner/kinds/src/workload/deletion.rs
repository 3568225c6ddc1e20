//! The deletion of a Pod by its workload, which its preDelete hook may hold up.

use api::kinds::shared::Lifecycle;
use jiff::Timestamp;

use super::action::{Action, DeleteReason, WriteReason};
use pod::lifecycle;
use pod::observed::ObservedPod;

/// Deletes the Pod, or lets its preDelete hook know; nothing where the hook knows and still holds it.
pub(crate) fn delete(
    pod: &ObservedPod,
    hooks: &Lifecycle,
    reason: DeleteReason,
    now: Timestamp,
) -> Option<Action> {
    match lifecycle::before_delete(pod, hooks, now) {
        None => Some(Action::delete_pod(pod, reason)),
        Some(writes) if writes.is_empty() => None,
        Some(writes) => Some(Action::write_pod(pod, writes, WriteReason::PrepareDelete)),
    }
}
