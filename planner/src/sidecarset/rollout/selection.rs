//! Which Pods are updated now (spec 20 §7).

use jiff::Timestamp;

use super::set::RolloutSet;
use super::standing::{Standing, View};
use super::{Hold, draft};
use crate::observed_pod::ObservedPod;
use crate::percent;
use crate::pod_write::PodWrite;

/// The old Pods, by their positions among the standings and in the order of the update.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Those that are updated now, and how.
    pub(super) taken: Vec<(usize, PodWrite)>,
    /// Those that wait, and why.
    pub(super) held: Vec<(usize, Hold)>,
}

/// Selects among all Pods of the SidecarSet.
pub(super) fn select(
    set: &RolloutSet,
    standings: &[Standing],
    latest_revision: &str,
    now: Timestamp,
) -> Selection {
    let mut selection = Selection::default();
    let mut candidates: Vec<(usize, &Standing)> = Vec::new();
    for (position, standing) in standings.iter().enumerate().filter(|(_, standing)| !standing.view.updated) {
        match hold(&standing.view) {
            Some(hold) => selection.held.push((position, hold)),
            None => candidates.push((position, standing)),
        }
    }
    let all: Vec<&ObservedPod> = standings.iter().map(|standing| &*standing.pod).collect();
    let pods: Vec<&ObservedPod> = candidates.iter().map(|(_, standing)| &*standing.pod).collect();
    let order = set.strategy.order.sort(&pods, &all);
    let in_order = order.into_iter().filter_map(|position| candidates.get(position).copied());

    let total = i32::try_from(standings.len()).unwrap_or(i32::MAX);
    let kept = percent::partition(set.strategy.partition.as_ref(), total);
    let limit = percent::sidecarset_max_unavailable(set.strategy.max_unavailable.as_ref(), total);
    let mut room = candidates.len().saturating_sub(usize::try_from(kept).unwrap_or(0));
    let busy = standings.iter().filter(|standing| standing.view.is_busy() || standing.view.reset_due).count();
    let mut busy = i32::try_from(busy).unwrap_or(i32::MAX);
    let mut full = false;
    for (position, standing) in in_order {
        if room == 0 {
            selection.held.push((position, Hold::Partition(kept)));
            continue;
        }
        room = room.saturating_sub(1);
        full |= standing.view.ready && busy >= limit;
        if full {
            selection.held.push((position, Hold::MaxUnavailable { busy, limit }));
            continue;
        }
        match draft::upgrade(set, &standing.pod, latest_revision, now) {
            Ok(write) => {
                busy = busy.saturating_add(i32::from(standing.view.ready));
                selection.taken.push((position, write));
            }
            Err(problem) => selection.held.push((position, Hold::Annotation(problem.into()))),
        }
    }
    selection
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
