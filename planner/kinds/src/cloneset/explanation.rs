//! What blocks a CloneSet: which Pods block, which budget is used up, what would clear it
//! ([`crate::workload::explanation`]).

use std::collections::BTreeSet;

use super::counting::{Difference, is_on_delete};
use super::members::counts_as_new;
use super::scale::Scale;
use super::update::Update;
use super::working::Working;
use crate::workload::blocked_pod::{BlockedPods, not_ready_since};
use crate::workload::explanation::{Blocker, Explanation, NAMED, held_as_meant};
use crate::workload::member::Member;
use crate::workload::plan::Problems;

#[cfg(test)]
mod tests;

/// Explains what a plan found.
pub(super) fn explain(working: &Working<'_>, scale: &Scale, update: &Update) -> Explanation {
    let limits = working.limits;
    let count =
        |counts: &dyn Fn(&Member<'_>) -> bool| working.members.iter().filter(|member| counts(member)).count();
    let total = working.members.len();
    let updated = count(&|member| member.is_updated);
    let available = count(&|member| member.is_available);
    let expected = limits.replicas - limits.partition;
    let enough = |number: usize, wanted: i64| i64::try_from(number).unwrap_or(i64::MAX) >= wanted;
    let is_complete = enough(total, limits.replicas)
        && scale.difference.down == 0
        && count(&|member| member.is_leaving()) == 0
        && available == total
        && enough(updated, expected);
    let problems = Problems { scale: scale.problem.clone(), update: update.step.problem.clone() };
    let mut blockers = problems.blockers(&working.set().status);
    blockers.retain(|_| update.step.impossible.is_empty());
    blockers.extend(working.members.iter().filter_map(|member| blocker(working, member, scale, update)));
    if scale.waiting_names > 0 {
        blockers.push(claim_in_use(working, scale.waiting_names));
    }
    Explanation {
        summary: format!(
            "{} Pods wanted, {expected} of them at revision {}; there are {total}: {updated} updated, \
             {available} available",
            limits.replicas,
            working.update.name(),
        ),
        is_complete,
        is_moving: !scale.actions.is_empty() || !update.step.actions.is_empty(),
        limits: held_back(working, scale.difference, update),
        blockers,
    }
}

/// Pods are not created until those are gone whose names and claims they take over.
fn claim_in_use(working: &Working<'_>, waiting: usize) -> Blocker {
    let ending = || {
        let pods = working.snapshot.pods.iter().map(|pod| &pod.metadata);
        pods.filter_map(|metadata| Some((&*metadata.name, metadata.deletion_timestamp?)))
    };
    let names: BTreeSet<&str> = ending().map(|(name, _)| name).collect();
    let names: Vec<&str> = names.into_iter().take(NAMED).collect();
    let (first, since) =
        (names.first().copied().unwrap_or_default(), ending().map(|(_, since)| since).min().map(Into::into));
    let names = names.join(", ");
    let message = format!("is ending; {waiting} Pods wait for the names of Pods that are ending: {names}");
    let remedy = "their claims are reused once those are gone; on a lost node delete them by force";
    Blocker::of_pod(first, "ClaimInUse", message, remedy, since)
}

/// Settings that hold the CloneSet back now.
fn held_back(working: &Working<'_>, scale: Difference, update: &Update) -> Vec<String> {
    let mut held = Vec::new();
    let limits = working.limits;
    let spec = &working.set().spec;
    let behind = working.members.iter().filter(|member| !member.is_updated).count();
    let unavailable: Vec<&str> =
        working.members.iter().filter(|member| !member.is_available).map(|member| member.name()).collect();
    let listed = |names: &[&str]| match names.len() {
        0 => "none is unavailable yet".to_owned(),
        number => {
            let more = if number > NAMED { ", ..." } else { "" };
            let shown: Vec<&str> = names.iter().take(NAMED).copied().collect();
            format!("unavailable {}: {}{more}", number, shown.join(", "))
        }
    };
    if behind > 0 {
        let kept = if update.difference.update == 0 {
            let stay = || format!("partition {}: {behind} Pods stay at older revisions", limits.partition);
            (limits.partition > 0).then(stay)
        } else {
            let is_used_up = update.step.actions.is_empty() && scale.up == 0;
            is_used_up.then(|| {
                format!(
                    "maxUnavailable {} of {} Pods and {} surge Pods is used up; {}",
                    limits.max_unavailable,
                    limits.replicas,
                    scale.surge,
                    listed(&unavailable)
                )
            })
        };
        let paused = spec.update_strategy.rolling_update.paused;
        held.extend(held_as_meant(&format!("{behind} Pods"), is_on_delete(spec), paused, kept));
    }
    if scale.up > scale.up_limit {
        held.push(format!(
            "scaleStrategy.maxUnavailable {} lets {} of {} missing Pods be created now; {}",
            limits.scale_max_unavailable.unwrap_or(0),
            scale.up_limit,
            scale.up,
            listed(&unavailable)
        ));
    }
    let waiting =
        working.members.iter().filter(|member| member.is_specified && !member.is_preparing_delete()).count();
    if (scale.down > 0 || waiting > 0) && scale.ready_limit == 0 {
        held.push(format!(
            "maxUnavailable {} keeps Pods that are ready from being deleted; {}",
            limits.max_unavailable,
            listed(&unavailable)
        ));
    }
    held
}

/// Why this Pod is not where it belongs.
fn blocker(working: &Working<'_>, member: &Member<'_>, scale: &Scale, update: &Update) -> Option<Blocker> {
    let hooks = &working.set().spec.lifecycle;
    let pods = BlockedPods::of(working.snapshot, hooks, &update.step, working.update);
    let is_left = scale.difference.is_left(!counts_as_new(member, working.prepared_is_new));
    pods.blocker(member, || {
        (member.is_specified && !scale.difference.allowance().take(member, is_left)).then(|| {
            let unavailable = working.members.iter().filter(|member| !member.is_available);
            let since = unavailable.filter_map(|member| not_ready_since(member.pod)).max();
            Blocker::of_deletion(member.name(), since)
        })
    })
}
