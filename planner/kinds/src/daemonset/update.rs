//! The update step (docs/behaviour/daemonset.md#update-step): continues with updates in progress, and takes the Pods of
//! further Nodes to the present revision, within the budget and as far as partition and selector let it.

use std::collections::HashSet;

use api::kinds::shared::{Lifecycle, PodUpdatePolicy};

use super::scale::{Scale, create, within_burst};
use super::working::{DaemonPod, NodeSlot, Pair, Working};
use crate::workload::action::{Action, DeleteReason, WriteReason};
use crate::workload::allowance::Allowance;
use crate::workload::deletion::delete;
use crate::workload::in_place::{Policy, Turn, UpdateStep, Updates};
use crate::workload::member::Member;
use api::conditions::IN_PLACE_UPDATE_READY;
use api::features::Feature;
use pod::lifecycle::Flavour;
use pod::write::PodWrite;
use values::moment::Random;

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) step: UpdateStep,
    /// Nodes without an available Pod, or with two Pods, as the budget counts them.
    pub(super) used: usize,
    /// Pods are updated no further, since the budget is used up.
    pub(super) budget_is_used_up: bool,
    /// Nodes that partition and selector keep as they are.
    pub(super) kept: usize,
}

/// A Node that counts in the arithmetic of an update.
type Target<'w, 'a> = (&'a str, &'w NodeSlot<'a>, Option<Pair<'w, 'a>>);

/// The Nodes that count, by their state.
struct Targets<'w, 'a> {
    /// Those whose turn it is, in their order.
    slots: Vec<Target<'w, 'a>>,
    /// Those that stay as they are.
    others: Vec<Target<'w, 'a>>,
    /// How many of these have an old Pod that is kept.
    kept: usize,
}

/// What is to be done about old Pods.
#[derive(Default)]
struct Choice<'w, 'a> {
    /// Pods to update.
    pods: Vec<&'w DaemonPod<'a>>,
    /// Pods whose successor on the same Node is available.
    finished: Vec<&'w DaemonPod<'a>>,
    /// Nodes to get a new Pod beside the old one.
    nodes: Vec<&'a str>,
}

pub(super) fn plan(working: &Working<'_>, scale: &Scale, random: &mut Random) -> Update {
    let settings = &working.settings;
    // Hooks other than preDelete have no effect.
    let hooks = &working.set().spec.lifecycle;
    let hooks = Lifecycle { pre_delete: hooks.pre_delete.clone(), ..Lifecycle::default() };
    let updates = Updates {
        rules: &working.rules,
        hooks: &hooks,
        flavour: Flavour::StatefulSet,
        held: working.snapshot.held,
        now: working.now,
    };
    let mut update = Update::default();
    let mut policy = policy(working);
    let choice = if settings.on_delete || settings.paused || settings.problem.is_some() {
        Choice::default()
    } else {
        choose(working, &updates, &mut update)
    };
    if let Some(problem) = &settings.problem {
        update.step.problem = Some(problem.clone());
    }
    let mut busy: HashSet<&str> = scale.actions.iter().map(Action::object).collect();
    let twins =
        working.pods().filter(|pod| pod.is_twin && pod.pod().is_active() && !busy.contains(pod.name()));
    let twins: Vec<&DaemonPod<'_>> = twins.collect();
    update.step.actions.extend(twins.iter().map(|pod| relabel(working, pod)));
    busy.extend(twins.iter().map(|pod| pod.name()));
    let active = working.pods().filter(|pod| pod.pod().is_active() && !busy.contains(pod.name()));
    let members: Vec<Member<'_>> = active.map(|pod| pod.member.clone()).collect();
    let chosen: HashSet<&str> = choice.pods.iter().map(|pod| pod.name()).collect();
    let turn = Turn { taken: chosen.clone(), chosen };
    let mut busy_now = updates.go_on(&members, &turn, &mut policy, &mut update.step);
    busy_now.extend(busy);
    let nodes = choice.nodes.iter().copied().take(settings.burst);
    let mut problem = None;
    update.step.actions.extend(create(working, random, nodes, &mut problem));
    update.step.problem = update.step.problem.take().or(problem);
    advance(working, choice, &updates, &mut policy, &busy_now, &mut update.step);
    update
}

/// Makes the Pod one of the present revision, which says the same as its own.
fn relabel(working: &Working<'_>, pod: &DaemonPod<'_>) -> Action {
    let mut write = PodWrite::default();
    for (label, value) in working.rules.labels.labels(working.update.name()) {
        write.set_label(label, value);
    }
    Action::write_pod(pod.pod(), vec![write], WriteReason::KeepIdentity)
}

/// How Pods come to the present revision.
pub(super) fn policy<'w, 'a>(working: &'w Working<'a>) -> Policy<'w, 'a> {
    let allowed = match working.settings.in_place {
        true => PodUpdatePolicy::InPlaceIfPossible,
        false => PodUpdatePolicy::ReCreate,
    };
    Policy::new(&working.rules, &working.history, working.update, allowed)
}

/// Updates what is chosen, in place where that is possible.
fn advance<'w, 'a>(
    working: &'w Working<'a>,
    choice: Choice<'w, 'a>,
    updates: &Updates<'_>,
    policy: &mut Policy<'w, 'a>,
    busy: &HashSet<&str>,
    step: &mut UpdateStep,
) {
    let burst = working.settings.burst;
    let mut deletions = choice.finished;
    let mut updated = 0_usize;
    for pod in choice.pods {
        if busy.contains(pod.name()) {
            continue;
        }
        // Pods that were created before updates in place were asked for lack the gate.
        let may_stay = working.settings.in_place && pod.pod().has_readiness_gate(IN_PLACE_UPDATE_READY);
        if may_stay && policy.is_possible_for(&pod.member) {
            updated += 1;
            let is_updated = updated <= burst && !updates.update_in_place(&pod.member, policy, step);
            deletions.extend(is_updated.then_some(pod));
        } else {
            deletions.push(pod);
        }
    }
    let deletions = deletions.into_iter().filter(|pod| !busy.contains(pod.name()));
    let deletions =
        deletions.filter_map(|pod| delete(pod.pod(), updates.hooks, DeleteReason::Recreate, working.now));
    step.actions.extend(within_burst(deletions, burst));
}

/// The Nodes that count in the arithmetic of an update: updated ones, those that are being updated, and of the others,
/// as far as partition and selector let it, first those whose Pod is not available, then those with the highest names.
fn targets<'w, 'a>(working: &'w Working<'a>, updates: &Updates<'_>) -> Targets<'w, 'a> {
    let prunes = working.snapshot.gates.enabled(Feature::DaemonSetPruneIneligibleNodes);
    let (mut updated, mut updating) = (Vec::new(), Vec::new());
    let (mut rest, mut others) = (Vec::new(), Vec::new());
    for (node, slot) in working.slots.iter().rev() {
        if !slot.fit.should_run && prunes {
            continue;
        }
        let pair = slot.pair();
        let target = (*node, slot, pair);
        match pair {
            None | Some(Pair { new: Some(_), .. }) => updated.push(target),
            Some(Pair { old: None, .. }) => updating.push(target),
            Some(Pair { old: Some(old), .. }) if old.member.is_preparing_delete() => updating.push(target),
            Some(Pair { old: Some(old), .. }) if slot.is_selected => {
                // What can't be updated now keeps its place, or it would hold up others.
                let is_stuck = !slot.fit.should_run || !updates.can_begin(&old.member);
                let Member { is_serving, is_available, .. } = old.member;
                rest.push(((is_stuck || is_serving, is_stuck || is_available), target));
            }
            Some(_) => others.push(target),
        }
    }
    rest.sort_by_key(|(works, _)| *works);
    let waiting = rest.len();
    let mut slots = updated;
    slots.append(&mut updating);
    slots.extend(rest.into_iter().map(|(_, target)| target));
    let limit = (slots.len() + others.len()).saturating_sub(working.settings.partition);
    let beyond = slots.split_off(limit.min(slots.len()));
    let kept = others.len() + waiting.min(beyond.len());
    others.extend(beyond);
    Targets { slots, others, kept }
}

fn choose<'w, 'a>(working: &'w Working<'a>, updates: &Updates<'_>, update: &mut Update) -> Choice<'w, 'a> {
    let targets = targets(working, updates);
    update.kept = targets.kept;
    let mut choice = Choice::default();
    match working.settings.surges && working.settings.max_surge > 0 {
        true => choose_surging(working, &targets, update, &mut choice),
        false => choose_within_unavailable(working, &targets, updates, update, &mut choice),
    }
    choice
}

/// Old Pods are updated while fewer Nodes than `maxUnavailable` are without an available Pod, those that partition and
/// selector keep among them. One that serves nobody takes nothing away.
fn choose_within_unavailable<'w, 'a>(
    working: &Working<'a>,
    targets: &Targets<'w, 'a>,
    updates: &Updates<'_>,
    update: &mut Update,
    choice: &mut Choice<'w, 'a>,
) {
    let is_gone = |pod: Option<&DaemonPod<'_>>| pod.is_none_or(|pod| pod.member.is_preparing_delete());
    let (mut unavailable, mut waiting, mut candidates) = (0_usize, 0_usize, Vec::new());
    let turns = targets.slots.iter().map(|target| (target, true));
    let turns = turns.chain(targets.others.iter().map(|target| (target, false)));
    for ((_, slot, pair), is_its_turn) in turns {
        let Some(Pair { new, old }) = *pair else {
            unavailable += 1;
            continue;
        };
        if is_gone(new) == is_gone(old) {
            unavailable += 1;
        } else if let Some(new) = new {
            // One that prepares for its end is not available either: its Node counts once.
            unavailable += usize::from(!new.member.is_available);
        } else if let Some(old) = old {
            // On a Node that is to have no Pod no other one would come; what is refused is left alone.
            let may_begin = is_its_turn && slot.fit.should_run && updates.can_begin(&old.member);
            let Member { is_available, is_serving, .. } = old.member;
            // OpenKruise leaves it out, and takes others down beside it.
            unavailable += usize::from(slot.fit.should_run && !is_available);
            waiting += usize::from(slot.fit.should_run && is_serving && !is_available);
            let list = if is_serving { &mut candidates } else { &mut choice.pods };
            list.extend(may_begin.then_some(old));
        }
    }
    let left =
        |used: usize| i64::try_from(working.settings.max_unavailable.saturating_sub(used)).unwrap_or(0);
    let proven = left(unavailable - waiting);
    let mut allowance = Allowance { available: left(unavailable), proven, serving: proven };
    let number = candidates.len();
    candidates.retain(|old| allowance.take(&old.member, true));
    update.used = unavailable;
    update.budget_is_used_up = candidates.len() < number;
    choice.pods.append(&mut candidates);
}

/// Nodes get a new Pod beside the old one while fewer than `maxSurge` have two. A Node whose old Pod serves nobody gets
/// one at once.
fn choose_surging<'w, 'a>(
    working: &Working<'a>,
    targets: &Targets<'w, 'a>,
    update: &mut Update,
    choice: &mut Choice<'w, 'a>,
) {
    let (mut surging, mut candidates) = (0_usize, Vec::new());
    for (node, slot, pair) in &targets.slots {
        let Some(Pair { new, old }) = *pair else {
            surging += 1;
            continue;
        };
        // What is left of a Pod that failed is for the scale step.
        let stays = |old: &&DaemonPod<'_>| !old.member.is_preparing_delete() && !old.has_failed();
        let Some(old) = old.filter(stays) else { continue };
        match new {
            None if !slot.fit.should_run => {}
            None if !old.member.is_serving => choice.nodes.push(node),
            None => candidates.push(*node),
            Some(new) => {
                // It has two until the old one is gone.
                surging += 1;
                choice.finished.extend(new.member.is_available.then_some(old));
            }
        }
    }
    let budget = working.settings.max_surge.saturating_sub(surging);
    update.used = surging;
    update.budget_is_used_up = candidates.len() > budget;
    choice.nodes.extend(candidates.into_iter().take(budget));
}
