//! What blocks a StatefulSet: which Pods block, which budget is used up, what would clear it
//! ([`crate::workload::explanation`]).

use super::scale::Scale;
use super::update::Update;
use super::working::{Numbered, Working};
use crate::workload::blocked_pod::{BlockedPods, not_ready_since};
use crate::workload::explanation::{Blocker, Explanation, held_as_meant};
use crate::workload::plan::Problems;

/// Explains what a plan found.
pub(super) fn explain(
    working: &Working<'_>,
    scale: &Scale,
    update: &Update,
    problems: &Problems,
    is_moving: bool,
) -> Explanation {
    let settings = &working.settings;
    let count = |counts: &dyn Fn(&Numbered<'_>) -> bool| {
        i64::try_from(working.placed().filter(|pod| counts(pod)).count()).unwrap_or(i64::MAX)
    };
    let total = count(&|_| true);
    let updated = count(&|pod| pod.member.is_updated);
    let available = count(&|pod| !working.is_unavailable(pod));
    let expected = settings.replicas.saturating_sub(settings.partition).max(0);
    let is_complete = working.missing == 0
        && working.condemned.is_empty()
        && available == total
        && updated >= expected
        && count(&|pod| pod.member.is_leaving()) == 0;
    let mut blockers = problems.blockers(&working.set().status);
    blockers.retain(|_| update.step.impossible.is_empty());
    blockers.extend(working.pods().filter_map(|pod| blocker(working, pod, update)));
    Explanation {
        summary: format!(
            "{} Pods wanted, {expected} of them at revision {}; there are {}: {updated} updated, {available} available",
            settings.replicas,
            working.update.name(),
            total + i64::try_from(working.condemned.len()).unwrap_or(i64::MAX),
        ),
        is_complete,
        is_moving,
        limits: held_back(working, scale, update, total - updated),
        blockers,
    }
}

/// Settings that hold the StatefulSet back now. `behind` Pods are not at the update revision.
fn held_back(working: &Working<'_>, scale: &Scale, update: &Update, behind: i64) -> Vec<String> {
    let settings = &working.settings;
    let mut held = Vec::new();
    if behind > 0 {
        let stay = || format!("partition {}: {behind} Pods stay at older revisions", settings.partition);
        let kept = (behind <= settings.partition).then(stay);
        held.extend(held_as_meant(&format!("{behind} Pods"), settings.on_delete, settings.paused, kept));
    }
    if update.budget_is_used_up && update.step.actions.is_empty() {
        held.push(format!(
            "maxUnavailable {} of {} Pods is used up; unavailable {}",
            settings.max_unavailable, settings.replicas, update.unavailable
        ));
    }
    if let Some(name) = &scale.waits_for {
        held.push(match (settings.monotonic, settings.scale_budget) {
            (false, Some(budget)) => {
                format!("scaleStrategy.maxUnavailable {budget} is used up; it waits for Pod {name}")
            }
            _ => format!("podManagementPolicy OrderedReady waits for Pod {name}"),
        });
    }
    held
}

/// Why this Pod is not where it belongs.
fn blocker(working: &Working<'_>, pod: &Numbered<'_>, update: &Update) -> Option<Blocker> {
    let named = |reason, message: &str, remedy, since| {
        Some(Blocker::of_pod(pod.name(), reason, message, remedy, since))
    };
    if let Some(since) = pod.pod().metadata.deletion_timestamp {
        let remedy = "its name is free once it is gone; on a lost node delete it by force";
        return named("Terminating", "is ending", remedy, Some(since.into()));
    }
    let hooks = &working.set().spec.lifecycle;
    let blocked = BlockedPods::of(working.snapshot, hooks, &update.step, working.update);
    blocked.blocker(&pod.member, || {
        let since = not_ready_since(pod.pod());
        let settings = &working.settings;
        if pod.member.is_specified && (settings.paused || settings.on_delete) {
            let message = "is to be deleted, but the StatefulSet is paused or of type OnDelete";
            let remedy = "it goes when the StatefulSet is neither, or by kubectl delete";
            return named("Held", message, remedy, since);
        }
        if pod.member.is_specified && update.budget_is_used_up {
            return Some(Blocker::of_deletion(pod.name(), since));
        }
        let fit = working.claims.fit(pod.ordinal);
        if working.settings.resizes_claims && fit.compatible && !fit.ready {
            let message = "has a claim that grows";
            return named("ClaimResizing", message, "look at the claim's Events and conditions", since);
        }
        None
    })
}
