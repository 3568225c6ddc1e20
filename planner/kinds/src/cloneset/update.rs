//! The update step of a CloneSet: continues with what is in progress, and takes further Pods to the revision
//! they belong to, in the order and within the budget that the CloneSet asks for.

use api::annotations::GROW_CLAIMS;
use api::features::Feature;
use api::kinds::cloneset::CloneSet;
use api::kinds::shared::PodUpdatePolicy;

use super::counting::{Difference, is_on_delete};
use super::working::Working;
use crate::workload::allowance::Allowance;
use crate::workload::in_place::{Policy, Turn, UpdateStep, Updates};
use crate::workload::member::Member;
use crate::workload::revision::StoredRevision;
use crate::workload::update_order::UpdateOrder;
use pod::lifecycle::Flavour;
use pod::observed::ObservedPod;

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) step: UpdateStep,
    /// The arithmetic behind it.
    pub(super) difference: Difference,
}

pub(super) fn plan(working: &Working<'_>) -> Update {
    let difference = working.difference(false);
    let forward = difference.update > 0;
    let target = if forward { working.update } else { working.current };
    let updates = updates(working);
    let mut step = UpdateStep::default();
    let mut policy = policy(working, target);
    let chosen = choose(working, difference.update, &updates, &mut policy, &mut step);
    let choice = Choice::new(working, target, forward, difference.update_limit);
    let taken = choice.among(&chosen, |member| updates.keeps_serving(member, &mut policy));
    let turn = Turn {
        chosen: chosen.iter().map(|member| member.name()).collect(),
        taken: taken.iter().map(|member| member.name()).collect(),
    };
    let busy = updates.go_on(&working.members, &turn, &mut policy, &mut step);
    for member in taken.into_iter().filter(|member| !busy.contains(member.name())) {
        if !updates.update_in_place(member, &mut policy, &mut step) {
            updates.specify_delete(member, target, &mut step);
        }
    }
    if grows_claims(working) {
        working.claims.grow(working.snapshot, &working.members, &mut step);
    }
    Update { step, difference }
}

/// The CloneSet wants its claims to grow, and lets its Pods be updated.
fn grows_claims(working: &Working<'_>) -> bool {
    let CloneSet { metadata, spec, .. } = working.set();
    working.snapshot.gates.enabled(Feature::StatefulSetAutoResizePVCGate)
        && metadata.annotations.get(GROW_CLAIMS).is_some_and(|grow| grow == "true")
        && !spec.update_strategy.rolling_update.paused
}

/// The update takes no Pod out of service, nor does the way back.
pub(super) fn keeps_serving(working: &Working<'_>) -> bool {
    let updates = updates(working);
    [(true, working.update), (false, working.current)].into_iter().all(|(forward, target)| {
        let mut policy = policy(working, target);
        let mut others = working.members.iter().filter(|member| member.is_updated != forward);
        others.all(|member| updates.keeps_serving(member, &mut policy))
    })
}

fn updates<'w>(working: &'w Working<'_>) -> Updates<'w> {
    Updates {
        rules: &working.rules,
        hooks: &working.set().spec.lifecycle,
        flavour: Flavour::CloneSet,
        held: working.snapshot.held,
        now: working.now,
    }
}

/// How Pods come to `target`.
pub(super) fn policy<'w, 'a>(working: &'w Working<'a>, target: &'w StoredRevision) -> Policy<'w, 'a> {
    let rolling = &working.set().spec.update_strategy.rolling_update;
    let allowed = rolling.pod_update_policy.clone().unwrap_or_default();
    let claims_count = working.snapshot.gates.enabled(Feature::RecreatePodWhenChangeVCTInCloneSetGate)
        && allowed != PodUpdatePolicy::InPlaceOnly;
    let mut policy = Policy::new(&working.rules, &working.history, target, allowed);
    policy.grace_seconds = rolling.in_place_update_strategy.grace_period_seconds.unwrap_or(0);
    policy.claims_count = claims_count;
    policy
}

/// The Pods whose turn it is, in their order: `number` to the update revision, or back to the current one
/// where it is negative. Budgets are not considered yet.
fn choose<'w, 'a>(
    working: &'w Working<'a>,
    number: i64,
    updates: &Updates<'_>,
    policy: &mut Policy<'w, 'a>,
    step: &mut UpdateStep,
) -> Vec<&'w Member<'a>> {
    let spec = &working.set().spec;
    if is_on_delete(spec) || spec.update_strategy.rolling_update.paused || number == 0 {
        return Vec::new();
    }
    let forward = number > 0;
    // Pods that are to be deleted are not in the number: they are replaced, not updated.
    let waiting: Vec<&Member<'_>> = working
        .members
        .iter()
        .filter(|member| member.is_updated != forward && !member.is_leaving() && updates.can_begin(member))
        .collect();
    let number = usize::try_from(number.abs()).unwrap_or(usize::MAX);
    let mut chosen = Vec::new();
    for member in ordered(working, &waiting) {
        if chosen.len() >= number {
            break;
        }
        if policy.allows(member, step) {
            chosen.push(member);
        }
    }
    chosen
}

fn ordered<'m, 'a>(working: &Working<'a>, waiting: &[&'m Member<'a>]) -> Vec<&'m Member<'a>> {
    let rolling = &working.set().spec.update_strategy.rolling_update;
    let order = UpdateOrder::of_workload(Some(&rolling.priority_strategy), &rolling.scatter_strategy);
    let pods: Vec<&ObservedPod> = waiting.iter().map(|member| &**member.pod).collect();
    let all: Vec<&ObservedPod> = working.members.iter().map(|member| &**member.pod).collect();
    order.sort(&pods, &all).into_iter().filter_map(|position| waiting.get(position).copied()).collect()
}

/// Which Pods the budget bears.
struct Choice {
    limit: i64,
    allowance: Allowance,
    /// Pods at the target revision that are not available, those that are taken among them.
    tried: i64,
}

impl Choice {
    fn new(working: &Working<'_>, target: &StoredRevision, forward: bool, limit: i64) -> Self {
        let at_target = |member: &Member<'_>| match forward {
            true => member.is_updated,
            false => working.rules.labels.is_at(member.pod, target.name()),
        };
        let tried = working.members.iter().filter(|member| at_target(member) && !member.is_available);
        // Those that will be deleted are as good as gone.
        let staying = working.members.iter().filter(|member| !member.is_specified);
        let floor = i64::try_from(working.members.len()).unwrap_or(i64::MAX) - limit;
        Self {
            limit,
            tried: i64::try_from(tried.count()).unwrap_or(i64::MAX),
            allowance: Allowance::above(floor, staying.map(|member| (member, !at_target(member)))),
        }
    }

    /// The Pods that the budget bears, in their order. One that serves nobody costs nothing of it, so it is
    /// taken also behind others that have to wait; but too many Pods that are not available at the target
    /// revision stop a failing rollout. Those whose update `is_free` are all taken.
    fn among<'w, 'a>(
        mut self,
        chosen: &[&'w Member<'a>],
        mut is_free: impl FnMut(&'w Member<'a>) -> bool,
    ) -> Vec<&'w Member<'a>> {
        let (mut taken, waiting): (Vec<_>, Vec<_>) =
            chosen.iter().copied().partition(|member| is_free(member));
        for member in waiting {
            // Of Pods that serve nobody one may be tried even where the budget is used up: it takes nothing
            // away.
            if self.tried >= self.limit.max(1) {
                break;
            }
            let is_borne = self.tried < self.limit && self.allowance.take(member, true);
            if is_borne || !member.is_serving {
                self.tried += 1;
                taken.push(member);
            }
        }
        taken
    }
}
