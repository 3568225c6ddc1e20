//! What blocks a DaemonSet: which Nodes have no Pod and why, which Pods block, which budget is used up
//! ([`crate::workload::explanation`]).

use super::scale::Scale;
use super::status::is_available;
use super::update::Update;
use super::working::{DaemonPod, NodeSlot, Working};
use crate::workload::blocked_pod::BlockedPods;
use crate::workload::explanation::{Blocker, Explanation, held_as_meant};
use crate::workload::plan::Problems;
use pod::inplace::Incomplete;

/// Explains what a plan found.
pub(super) fn explain(
    working: &Working<'_>,
    scale: &Scale,
    update: &Update,
    problems: &Problems,
    is_moving: bool,
) -> Explanation {
    let wanted = || working.slots.values().filter(|slot| slot.fit.should_run);
    let count = |counts: &dyn Fn(&DaemonPod<'_>) -> bool| {
        wanted().filter(|slot| slot.pods.first().is_some_and(counts)).count()
    };
    let desired = wanted().count();
    let updated = count(&|pod| pod.is_new);
    let available = count(&|pod| is_available(working, pod));
    let misplaced = working.slots.values().filter(|slot| !slot.fit.may_stay).count();
    let is_alone = |slot: &NodeSlot<'_>| slot.pods.len() <= 1;
    let expected = desired.saturating_sub(working.settings.partition);
    let is_complete = scale.missing == scale.unpopulated
        && misplaced == 0
        && working.lost.is_empty()
        && available + scale.unpopulated >= desired
        && updated >= expected.min(desired - scale.unpopulated).min(desired.saturating_sub(update.kept))
        && wanted().all(is_alone)
        && !update.step.incomplete.values().any(|waits_for| matches!(waits_for, Incomplete::Resize(_)));
    let mut blockers = problems.blockers(&working.set().status);
    blockers.extend(working.pods().filter_map(|pod| blocker(working, pod, update)));
    Explanation {
        summary: format!(
            "{desired} Nodes are to have a Pod, {expected} of them at revision {}; {} have one: {updated} updated, {available} available",
            working.update.name(),
            count(&|_| true),
        ),
        is_complete,
        is_moving,
        limits: held_back(working, scale, update, desired, updated),
        blockers,
    }
}

/// Settings that hold the DaemonSet back now.
fn held_back(
    working: &Working<'_>,
    scale: &Scale,
    update: &Update,
    desired: usize,
    updated: usize,
) -> Vec<String> {
    let settings = &working.settings;
    let mut held = Vec::new();
    let behind = desired.saturating_sub(updated).saturating_sub(scale.missing);
    if behind > 0 {
        let keep = || format!("partition and selector keep {} Nodes at older revisions", update.kept);
        let (pods, kept) = (format!("Pods of {behind} Nodes"), (update.kept > 0).then(keep));
        held.extend(held_as_meant(&pods, settings.on_delete, settings.paused, kept));
    }
    if scale.unpopulated > 0 {
        held.push(format!("partitionedScaling: {} Nodes stay without a Pod", scale.unpopulated));
    }
    if update.budget_is_used_up && update.step.actions.is_empty() {
        held.push(match settings.max_surge {
            0 => format!(
                "maxUnavailable {} of {desired} Nodes is used up; unavailable {}",
                settings.max_unavailable, update.used
            ),
            surge => format!("maxSurge {surge} of {desired} Nodes is used up by {}", update.used),
        });
    }
    held
}

/// Why this Pod is not where it belongs.
fn blocker(working: &Working<'_>, pod: &DaemonPod<'_>, update: &Update) -> Option<Blocker> {
    let named = |reason, message: String, remedy, since| {
        Some(Blocker::of_pod(pod.name(), reason, message, remedy, since))
    };
    let node = pod.pod().spec.node().unwrap_or_default();
    if let Some(since) = pod.pod().metadata.deletion_timestamp {
        let remedy = "its Node gets another one once it is gone; on a lost Node delete it by force";
        return named("Terminating", format!("on {node} is ending"), remedy, Some(since.into()));
    }
    if pod.has_failed() {
        let generation = working.set().status.observed_generation;
        let due = working.snapshot.failures.due(node, generation, working.now)?;
        let message = format!("on {node} has failed, and is replaced at {}", values::moment::rfc3339(due));
        return named("Failed", message, "see the Events and logs of the Pod", None);
    }
    if &*pod.pod().status.phase == "Succeeded" {
        let message = format!("on {node} has ended");
        return named("Succeeded", message, "containers of a DaemonSet are to run on; delete the Pod", None);
    }
    let hooks = &working.set().spec.lifecycle;
    let blocked = BlockedPods::of(working.snapshot, hooks, &update.step, working.update);
    blocked.blocker(&pod.member, || None)
}
