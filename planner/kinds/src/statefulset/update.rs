//! The update step (docs/behaviour/statefulset.md#update-step): continues with what is in progress, deletes the Pods that
//! are labelled for it, and takes further Pods to the update revision, in the order and within the budget that the
//! StatefulSet asks for.

use std::collections::HashSet;

use api::kinds::shared::PodUpdatePolicy;
use jiff::{SignedDuration, Timestamp};

use super::scale::{Scale, delete};
use super::working::{Content, Numbered, Slot, Working, slot_name};
use crate::workload::action::{Action, DeleteReason, WriteReason};
use crate::workload::in_place::{Policy, Turn, UpdateStep, Updates};
use crate::workload::member::Member;
use crate::workload::update_order::UpdateOrder;
use pod::lifecycle::{self, Flavour, State};
use pod::observed::ObservedPod;

/// How long a claim waits for a new Pod before it gets one.
const RESIZE_TIMEOUT: SignedDuration = SignedDuration::from_mins(1);

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) step: UpdateStep,
    /// Pods of the current revision that leave it.
    pub(super) leaving_current: i32,
    /// Unavailable Pods, those that the step makes unavailable among them.
    pub(super) unavailable: usize,
    /// Pods are updated no further, since the budget is used up.
    pub(super) budget_is_used_up: bool,
}

/// A question about a Pod.
type Asked<'w> = &'w dyn Fn(&Numbered<'_>) -> bool;

/// Names of Pods that count as unavailable.
struct Unavailable<'a> {
    names: HashSet<&'a str>,
    /// Of these, such as serve at an older revision: only `minReadySeconds` make them unavailable.
    waiting: HashSet<&'a str>,
    /// Slots without a Pod.
    missing: usize,
}

impl<'a> Unavailable<'a> {
    fn count(&self) -> usize {
        self.names.len().saturating_add(self.missing)
    }

    /// The Pod may be taken out of service while at most `limit` are. One that serves nobody takes nothing away.
    fn bears(&self, name: &str, limit: usize) -> bool {
        let used = match self.waiting.contains(name) {
            true => self.count().saturating_sub(self.waiting.len()),
            false => self.count(),
        };
        let serves = self.waiting.contains(name) || !self.names.contains(name);
        !serves || used < limit
    }

    /// The Pod is taken out of service.
    fn take(&mut self, name: &'a str) {
        self.waiting.remove(name);
        self.names.insert(name);
    }
}

pub(super) fn plan(working: &Working<'_>, scale: &Scale, busy: &HashSet<&str>) -> Update {
    let updates = Updates {
        rules: &working.rules,
        hooks: &working.set().spec.lifecycle,
        flavour: Flavour::StatefulSet,
        held: working.snapshot.held,
        now: working.now,
    };
    let mut update = Update::default();
    let mut policy = policy(working);
    let targets = if working.settings.on_delete { Vec::new() } else { targets(working) };
    let may_update = !working.settings.on_delete && !working.settings.paused;
    // Where Pods are managed one after another, an update begins while all are available. What has begun goes on, and
    // what a broken revision left is healed: neither takes anything out of service.
    let waits = scale.stopped || scale.holds;
    let is_next = |pod: &Numbered<'_>| !waits || pod.prepares() || working.is_healed(pod);
    let is_due = |pod: &Numbered<'_>| may_update && is_next(pod);
    let mut busy: HashSet<&str> = busy.clone();
    busy.extend(go_on(working, &updates, (&targets, &is_due), &mut policy, &busy, &mut update));
    busy.extend(keep_after_all(working, &updates, &targets, &mut policy, &busy, &mut update.step));
    let names = |counts: &dyn Fn(&&Numbered<'_>) -> bool| {
        working.placed().filter(counts).map(Numbered::name).collect()
    };
    let mut unavailable = Unavailable {
        names: names(&|pod| working.is_unavailable(pod)),
        waiting: names(&|pod| working.is_waiting(pod)),
        missing: usize::try_from(working.missing).unwrap_or(usize::MAX),
    };
    if may_update {
        let specified = delete_specified(working, &busy, &is_next, &mut unavailable, &mut update);
        let goes_on = specified.is_empty() || !working.settings.monotonic;
        busy.extend(specified);
        if goes_on {
            let is_next = |slot: &&Slot<'_>| match &slot.content {
                Content::Pod(pod) => is_next(pod),
                Content::Orphan(_) | Content::Nothing => !waits,
            };
            let targets: Vec<_> = targets.into_iter().filter(is_next).collect();
            roll(working, &targets, &updates, &mut policy, &busy, &mut unavailable, &mut update);
        }
    }
    update.unavailable = unavailable.count();
    update
}

/// How Pods come to the update revision.
pub(super) fn policy<'w, 'a>(working: &'w Working<'a>) -> Policy<'w, 'a> {
    let rolling = &working.set().spec.update_strategy.rolling_update;
    let allowed = working.settings.update_policy.clone();
    let mut policy = Policy::new(&working.rules, &working.history, working.update, allowed);
    policy.grace_seconds = rolling.in_place_update_strategy.grace_period_seconds.unwrap_or(0);
    policy
}

/// Continues with updates and lifecycles in progress.
fn go_on<'a>(
    working: &Working<'a>,
    updates: &Updates<'_>,
    (targets, may_go): (&[&Slot<'a>], Asked<'_>),
    policy: &mut Policy<'_, 'a>,
    busy: &HashSet<&str>,
    update: &mut Update,
) -> HashSet<&'a str> {
    let active = working.pods().filter(|pod| pod.pod().is_active() && !busy.contains(pod.name()));
    let members: Vec<Member<'a>> = active.map(|pod| pod.member.clone()).collect();
    // A Pod that prepares continues preparing only for an update that is to come.
    let outdated = placed(targets).filter(|pod| !pod.member.is_updated);
    // The gate of a Pod that is updated now need not open before.
    let is_due = |pod: &&Numbered<'_>| {
        let claims_wait = working.settings.resizes_claims && !working.claims.fit(pod.ordinal).completed;
        let goes = pod.member.is_specified || pod.has_ended() || claims_wait;
        may_go(pod) && !goes && working.is_unavailable(pod) && updates.can_begin(&pod.member)
    };
    let turn = Turn {
        chosen: outdated.clone().map(Numbered::name).collect(),
        taken: outdated.filter(is_due).map(Numbered::name).collect(),
    };
    updates.go_on(&members, &turn, policy, &mut update.step)
}

/// The Pods in these slots.
fn placed<'w, 'a>(slots: &'w [&'w Slot<'a>]) -> impl Iterator<Item = &'w Numbered<'a>> + Clone {
    slots.iter().filter_map(|slot| match &slot.content {
        Content::Pod(pod) => Some(pod),
        Content::Orphan(_) | Content::Nothing => None,
    })
}

/// Pods that were to be deleted and are wanted again: they were too many, or were to be replaced.
fn keep_after_all<'a>(
    working: &Working<'a>,
    updates: &Updates<'_>,
    targets: &[&Slot<'a>],
    policy: &mut Policy<'_, 'a>,
    busy: &HashSet<&str>,
    step: &mut UpdateStep,
) -> Vec<&'a str> {
    let targeted: HashSet<&str> = placed(targets).map(Numbered::name).collect();
    let mut kept = Vec::new();
    for pod in working.placed() {
        let member = &pod.member;
        let is_marked = member.state == Some(State::PreparingDelete) && !pod.is_terminating();
        if !is_marked || member.is_specified || pod.has_ended() || busy.contains(pod.name()) {
            continue;
        }
        let recreates = working.settings.update_policy != PodUpdatePolicy::InPlaceOnly;
        let is_outdated = !member.is_updated && !policy.is_possible_for(member);
        let goes_for_update = targeted.contains(pod.name())
            && !working.settings.paused
            && recreates
            && (is_outdated || needs_new_pod(working, pod));
        if goes_for_update {
            continue;
        }
        kept.push(pod.name());
        let writes = lifecycle::enter(pod.pod(), State::Normal, false, updates.now);
        step.actions.push(Action::write_pod(pod.pod(), writes, WriteReason::KeepAfterAll));
    }
    kept
}

/// Deletes Pods that are labelled for it, as far as the budget bears it. Gives their names.
fn delete_specified<'a>(
    working: &Working<'a>,
    busy: &HashSet<&str>,
    is_next: Asked<'_>,
    unavailable: &mut Unavailable<'a>,
    update: &mut Update,
) -> Vec<&'a str> {
    let mut deleted = Vec::new();
    let specified = working.placed().rev().filter(|pod| pod.member.is_specified && is_next(pod));
    for pod in specified {
        if pod.is_terminating() || busy.contains(pod.name()) {
            continue;
        }
        if !unavailable.bears(pod.name(), working.settings.max_unavailable) {
            update.budget_is_used_up = true;
            continue;
        }
        update.step.actions.extend(delete(working, pod, DeleteReason::Specified));
        unavailable.take(pod.name());
        deleted.push(pod.name());
        if working.settings.monotonic && deleted.len() >= working.settings.max_unavailable {
            break;
        }
    }
    deleted
}

/// The slots that are to be at the update revision, in the order of the update.
fn targets<'w, 'a>(working: &'w Working<'a>) -> Vec<&'w Slot<'a>> {
    let settings = &working.settings;
    let number = settings.replicas.saturating_sub(settings.partition);
    let descending = working.slots.iter().rev();
    let Some(unordered) = &working.set().spec.update_strategy.rolling_update.unordered_update else {
        return descending.filter(|slot| !settings.is_partitioned(slot.ordinal)).collect();
    };
    let is_done = |slot: &&Slot<'_>| match &slot.content {
        Content::Pod(pod) => pod.is_terminating() || working.counts_as_updated(pod),
        Content::Orphan(_) | Content::Nothing => true,
    };
    let (mut list, waiting): (Vec<&Slot<'_>>, Vec<&Slot<'_>>) = descending.partition(is_done);
    let pods: Vec<&ObservedPod> = waiting
        .iter()
        .filter_map(|slot| match &slot.content {
            Content::Pod(pod) => Some(&**pod.pod()),
            Content::Orphan(_) | Content::Nothing => None,
        })
        .collect();
    let order = UpdateOrder::of_stateful_set(&unordered.priority_strategy).sort(&pods, &pods);
    list.extend(order.into_iter().filter_map(|position| waiting.get(position).copied()));
    list.truncate(usize::try_from(number).unwrap_or(0));
    list
}

/// Takes Pods to the update revision, and lets their claims grow before. Where Pods are managed one after another,
/// it ends with as many as may be unavailable, and with the first that is refused.
fn roll<'w, 'a>(
    working: &'w Working<'a>,
    targets: &[&'w Slot<'a>],
    updates: &Updates<'_>,
    policy: &mut Policy<'w, 'a>,
    busy: &HashSet<&str>,
    unavailable: &mut Unavailable<'a>,
    update: &mut Update,
) {
    let settings = &working.settings;
    let mut down =
        working.placed().filter(|pod| working.is_down(pod)).count().saturating_add(unavailable.missing);
    let mut begun = 0_usize;
    for slot in targets {
        let before = update.step.actions.len();
        let fit = working.claims.fit(slot.ordinal);
        let grows = settings.resizes_claims && !working.claims.is_written(slot.ordinal, busy);
        let Content::Pod(pod) = &slot.content else {
            // Claims that are left from an earlier Pod grow too: the slot is unavailable anyway.
            if grows && !fit.compatible {
                grow(working, slot, update);
            }
            continue;
        };
        let is_replaced = settings.resizes_claims && needs_new_pod(working, pod);
        if pod.member.is_updated && (!settings.resizes_claims || fit.compatible) && !is_replaced {
            continue;
        }
        // One that serves nobody may be updated even where the budget is used up: it takes nothing away. One
        // that serves while its claims wait for a new Pod does.
        let is_borne = match is_replaced {
            true => working.is_down(pod) || down < settings.max_unavailable,
            false => unavailable.bears(pod.name(), settings.max_unavailable),
        };
        if !is_borne {
            // Those behind it that are unavailable need not wait: a corrected template heals what a broken one left.
            update.budget_is_used_up = true;
            continue;
        }
        if settings.resizes_claims && !fit.completed {
            if grows && !fit.compatible {
                grow(working, slot, update);
            }
            // A claim that can't grow holds up the rollout of its Pod, not that of others.
            if fit.same_shape {
                unavailable.take(pod.name());
            }
        } else if pod.has_ended() && !pod.is_terminating() && !busy.contains(pod.name()) {
            update.step.actions.extend(delete(working, pod, DeleteReason::Ended));
        } else if !pod.is_terminating() && !busy.contains(pod.name()) {
            down += usize::from(is_replaced && !working.is_down(pod));
            advance(working, pod, updates, policy, unavailable, update, is_replaced);
        }
        let is_held = working.snapshot.held.contains_key(&pod.pod().metadata.uid);
        begun += usize::from(update.step.actions.len() > before);
        if settings.monotonic && (is_held || begun >= settings.max_unavailable) {
            return;
        }
    }
}

/// Updates one Pod.
fn advance<'w, 'a>(
    working: &'w Working<'a>,
    pod: &Numbered<'a>,
    updates: &Updates<'_>,
    policy: &mut Policy<'w, 'a>,
    unavailable: &mut Unavailable<'a>,
    update: &mut Update,
    needs_new_pod: bool,
) {
    if !updates.can_begin(&pod.member) || !policy.allows(&pod.member, &mut update.step) {
        return;
    }
    let before = update.step.actions.len();
    let in_place = !needs_new_pod && updates.update_in_place(&pod.member, policy, &mut update.step);
    if !in_place {
        update.step.actions.extend(delete(working, pod, DeleteReason::Recreate));
    }
    unavailable.take(pod.name());
    let is_at_current = working.rules.labels.is_at(pod.pod(), working.current.name());
    if is_at_current && (in_place || update.step.actions.len() > before) {
        update.leaving_current += 1;
    }
}

/// The file system of a volume grows only with a new Pod, and this one is at the update revision: nothing else would
/// replace it. A Pod that came later is the new one. Where a file system can grow under its Pod it does so within
/// this time, and waits just as well meanwhile.
fn needs_new_pod(working: &Working<'_>, pod: &Numbered<'_>) -> bool {
    let Some(since) = new_pod_due(working, pod) else { return false };
    working.settings.update_policy != PodUpdatePolicy::InPlaceOnly && since <= working.now
}

/// When the Pod is replaced since its claims still wait for a new one.
fn new_pod_due(working: &Working<'_>, pod: &Numbered<'_>) -> Option<Timestamp> {
    let since = working.claims.waits_for_new_pod(pod.ordinal)?.unwrap_or(Timestamp::MIN);
    let created = pod.pod().metadata.created();
    let is_older = created.is_none_or(|created| since == Timestamp::MIN || created < since);
    let is_meant = pod.member.is_updated && working.claims.fit(pod.ordinal).completed && is_older;
    is_meant.then(|| since.saturating_add(RESIZE_TIMEOUT).unwrap_or(working.now))
}

/// When Pods are replaced since their claims wait for new ones; for reconciles at the right time.
pub(super) fn next_new_pod(working: &Working<'_>) -> Option<Timestamp> {
    if !working.settings.resizes_claims {
        return None;
    }
    working.placed().filter_map(|pod| new_pod_due(working, pod)).filter(|due| *due > working.now).min()
}

fn grow(working: &Working<'_>, slot: &Slot<'_>, update: &mut Update) {
    let name = slot_name(working, slot);
    match working.claims.grow(working.snapshot, slot.ordinal, &name, &mut update.step.events) {
        Ok(actions) => update.step.actions.extend(actions),
        Err(problem) => drop(update.step.problem.get_or_insert(problem)),
    }
}
