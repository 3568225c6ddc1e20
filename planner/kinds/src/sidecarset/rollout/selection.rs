//! Which Pods are updated now (docs/behaviour/sidecarset.md#reconcile).

use jiff::Timestamp;

use super::rollout_pod::{RolloutPod, View};
use super::upgrade::upgrade;
use super::{Hold, Refused, Snapshot};
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use values::percent;

/// The old Pods, by their positions among the standings and in the order of the update.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Those that are updated now, and how.
    pub(super) taken: Vec<(usize, PodWrite)>,
    /// Those that wait, and why.
    pub(super) held: Vec<(usize, Hold)>,
    /// Pods that are being updated already, in no particular order.
    pub(super) busy: Vec<usize>,
}

/// Selects among all Pods of the SidecarSet.
pub(super) fn select(
    snapshot: &Snapshot<'_>,
    standings: &[RolloutPod],
    refused: &Refused,
    now: Timestamp,
) -> Selection {
    let Snapshot { set, latest_revision, .. } = *snapshot;
    let mut selection = Selection::default();
    let mut candidates: Vec<(usize, &RolloutPod)> = Vec::new();
    // Pods that could be updated but for a problem of their own: they are among those that stay old.
    let mut stays_old: usize = 0;
    for (position, standing) in standings.iter().enumerate().filter(|(_, standing)| !standing.view.updated) {
        match (hold(&standing.view), refused.get(&standing.pod.metadata.uid)) {
            (Some(hold), _) => selection.held.push((position, hold)),
            (None, Some(message)) => {
                stays_old = stays_old.saturating_add(1);
                selection.held.push((position, Hold::Refused(message.clone())));
            }
            (None, None) => candidates.push((position, standing)),
        }
    }
    let all: Vec<&ObservedPod> = standings.iter().map(|standing| &*standing.pod).collect();
    let pods: Vec<&ObservedPod> = candidates.iter().map(|(_, standing)| &*standing.pod).collect();
    let order = set.strategy.order.sort(&pods, &all);
    let in_order = order.into_iter().filter_map(|position| candidates.get(position).copied());

    let total = i32::try_from(standings.len()).unwrap_or(i32::MAX);
    let kept = percent::partition(set.strategy.partition.as_ref(), total);
    let limit = percent::sidecarset_max_unavailable(set.strategy.max_unavailable.as_ref(), total);
    let updatable = candidates.len().saturating_add(stays_old);
    let mut room = updatable.saturating_sub(usize::try_from(kept).unwrap_or(0));
    let busy = (0..).zip(standings).filter(|(_, standing)| is_busy(standing));
    selection.busy = busy.map(|(position, _)| position).collect();
    let mut busy = i32::try_from(selection.busy.len()).unwrap_or(i32::MAX);
    let mut full = false;
    for (position, standing) in in_order {
        if room == 0 {
            selection.held.push((position, Hold::Partition(kept)));
            continue;
        }
        full |= standing.view.ready && busy >= limit;
        if full {
            room = room.saturating_sub(1);
            selection.held.push((position, Hold::MaxUnavailable { busy, limit }));
            continue;
        }
        match upgrade(set, &standing.pod, latest_revision, now) {
            Ok(write) => {
                room = room.saturating_sub(1);
                busy = busy.saturating_add(i32::from(standing.view.ready));
                selection.taken.push((position, write));
            }
            Err(problem) => selection.held.push((position, Hold::Annotation(problem.into()))),
        }
    }
    selection
}

/// It is being updated: to the present version, or still to an earlier one, for which its sidecar will
/// restart.
fn is_busy(standing: &RolloutPod) -> bool {
    let view = &standing.view;
    let restarts = !view.updated && view.updated_in_place && view.updating.is_some();
    view.is_busy() || view.reset_due || (restarts && standing.pod.is_ready())
}

/// What keeps an old Pod from being a candidate.
fn hold(view: &View) -> Option<Hold> {
    if !view.selected {
        Some(Hold::NotSelected)
    } else if !view.upgradable {
        Some(Hold::NotUpgradable(None))
    } else if view.reset_due {
        Some(Hold::Resetting)
    } else {
        view.updating.clone().map(Hold::Updating)
    }
}
