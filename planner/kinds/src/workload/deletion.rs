//! The deletion of a Pod by its workload, which its preDelete hook may hold up.

use api::kinds::shared::Lifecycle;
use jiff::Timestamp;

use super::action::{Action, DeleteReason, WriteReason};
use super::seen::Seen;
use pod::lifecycle;
use pod::observed::ObservedPod;

/// Deletes the Pod, or lets its preDelete hook know; nothing where the hook knows and still holds it.
pub(crate) fn delete(
    pod: &ObservedPod,
    hooks: &Lifecycle,
    reason: DeleteReason,
    now: Timestamp,
) -> Option<Action> {
    let seen = Seen::pod(pod);
    match lifecycle::before_delete(pod, hooks, now) {
        None => Some(Action::DeletePod { pod: seen, claims: Vec::new(), reason }),
        Some(writes) if writes.is_empty() => None,
        Some(writes) => {
            let (reason, revision) = (WriteReason::PrepareDelete, String::new());
            Some(Action::WritePod { pod: seen, writes, reason, revision })
        }
    }
}
