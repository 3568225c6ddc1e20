//! How large each ReplicaSet of a Deployment is to be next (docs/behaviour/rollouts.md#the-deployment-controller): a rolling
//! update that stops at the number of new Pods that the release allows.
//!
//! 1. New Pods: never more than the release allows, except those that are there already and leave room for the old ones.
//! 2. All Pods: no more than `replicas` and the surge, where it was so. One more where there would be no new Pod otherwise.
//! 3. Available Pods: no fewer than `replicas` without those that may be unavailable, where it was so.
//! 4. Old Pods: no fewer than what the release leaves old.

use std::cmp::Reverse;

use super::sets::Sets;
use super::strategy::Limits;

/// The next sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Of the ReplicaSet of the present template; 0 where there is none and none is needed.
    pub(super) new: i64,
    /// Of the others, in their order.
    pub(super) old: Vec<i64>,
}

/// The next sizes of all ReplicaSets. What grows and what shrinks are decided together: Pods that are only to come are not
/// available, so the second is the same before and after them.
pub(super) fn next(limits: &Limits, sets: &Sets<'_>) -> Sizes {
    let all_old: i64 = sets.old.iter().map(|set| set.replicas).sum();
    let new = next_new(limits, sets, all_old);
    let mut old: Vec<i64> = sets.old.iter().map(|set| set.replicas).collect();
    let kept = limits.replicas - limits.updated.max(new);
    if all_old < kept {
        restore(&mut old, sets, kept - all_old);
    } else {
        let available = all_old + sets.new.as_ref().map_or(0, |set| set.available.min(new));
        let spare = available - (limits.replicas - limits.unavailable);
        shrink(&mut old, sets, spare.min(all_old - kept));
    }
    Sizes { new, old }
}

fn next_new(limits: &Limits, sets: &Sets<'_>, all_old: i64) -> i64 {
    let present = sets.new.as_ref().map_or(0, |set| set.replicas);
    if present >= limits.updated {
        // Those beyond the limit go where old ones that work have their room.
        let available: i64 = sets.old.iter().map(|set| set.available).sum();
        let old = all_old.min(limits.unavailable + available);
        return present.min(limits.updated.max(limits.replicas - old));
    }
    let room = limits.replicas + limits.surge - present - all_old;
    // With Pods in one ReplicaSet alone, Kubernetes' own controller would undo whatever changes its size.
    (present + room.max(0)).min(limits.updated).max(1)
}

/// Gives Pods back to the old version: to the ReplicaSet that has the most, which is the stable one where none has any.
fn restore(sizes: &mut [i64], sets: &Sets<'_>, missing: i64) {
    let candidates = sets.old.iter().zip(sizes).enumerate();
    let largest =
        candidates.max_by_key(|(position, (set, size))| (**size, set.is_stable, Reverse(*position)));
    if let Some((_, (_, size))) = largest {
        *size += missing;
    }
}

/// Takes away up to `spare` Pods: first those that are not available, of the oldest ReplicaSet first; then those of the
/// latest versions, so that the stable one, to which a rollback leads, keeps its Pods longest.
fn shrink(sizes: &mut [i64], sets: &Sets<'_>, spare: i64) {
    let mut spare = spare.max(0);
    for (size, set) in sizes.iter_mut().zip(&sets.old) {
        spare -= take(size, spare.min(set.replicas - set.available));
    }
    let mut latest: Vec<_> = sizes.iter_mut().zip(&sets.old).rev().collect();
    latest.sort_by_key(|(_, set)| (set.is_stable, Reverse(set.revision)));
    for (size, _) in latest {
        spare -= take(size, spare);
    }
}

/// Takes up to so many from a size, and says how many.
fn take(size: &mut i64, most: i64) -> i64 {
    let taken = most.min(*size);
    *size -= taken;
    taken
}
