//! The update step (spec 31 §9): goes on with what is under way, and takes further Pods to the revision
//! they belong to, in the order and within the budget that the CloneSet asks for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use api::features::Feature;
use api::kinds::shared::PodUpdatePolicy;
use api::labels::{CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH};

use super::counting::{Difference, is_on_delete};
use super::members::Member;
use super::{REVISION_LABELS, Working};
use crate::pod::inplace::{self, Incomplete, Progress, Reason, UpdateSpec};
use crate::pod::lifecycle::{self, BeforeUpdate, Flavour, State};
use crate::pod::observed::ObservedPod;
use crate::pod::revision_labels::short_hash;
use crate::pod::write::PodWrite;
use crate::workload::action::{Action, WriteReason};
use crate::workload::compared_template;
use crate::workload::revision::StoredRevision;
use crate::workload::seen::Seen;
use crate::workload::update_order::UpdateOrder;

/// What the step comes to.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) actions: Vec<Action>,
    pub(super) problem: Option<String>,
    /// When to look again, whatever happens.
    pub(super) requeue: Option<Duration>,
    /// What updates under way wait for, by Pod.
    pub(super) incomplete: BTreeMap<String, Incomplete>,
    /// Pods that `InPlaceOnly` keeps as they are, and why.
    pub(super) impossible: BTreeMap<String, Reason>,
    /// The arithmetic behind it.
    pub(super) difference: Difference,
}

impl Update {
    fn requeue_after(&mut self, delay: Option<Duration>) {
        self.requeue = [self.requeue, delay].into_iter().flatten().min();
    }

    /// The first problem is the one to tell of.
    fn report(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

pub(super) fn plan(working: &Working<'_>) -> Update {
    let mut update = Update { difference: working.difference(false), ..Update::default() };
    let forward = update.difference.update > 0;
    let target = if forward { working.update } else { working.current };
    let mut policy = Policy::new(working, target);
    let chosen = choose(working, forward, &mut policy, &mut update);
    let choice = Choice::new(working, target, forward, update.difference.update_limit);
    let taken = choice.among(&chosen);
    let turn = Turn {
        chosen: chosen.iter().map(|member| member.name()).collect(),
        taken: taken.iter().map(|member| member.name()).collect(),
    };
    let busy = go_on(working, &turn, &mut policy, &mut update);
    for member in taken.into_iter().filter(|member| !busy.contains(member.name())) {
        update_pod(working, target, member, policy.way(member.pod).ok(), &mut update);
    }
    update
}

/// The Pods whose turn it is, by name.
struct Turn<'a> {
    /// All of them.
    chosen: HashSet<&'a str>,
    /// Those that the budget bears now.
    taken: HashSet<&'a str>,
}

/// The Pods whose turn it is, in their order, as far as the budget will bear them.
fn choose<'w, 'a>(
    working: &'w Working<'a>,
    forward: bool,
    policy: &mut Policy<'w, 'a>,
    update: &mut Update,
) -> Vec<&'w Member<'a>> {
    let spec = &working.set().spec;
    if is_on_delete(spec) || spec.update_strategy.rolling_update.paused || update.difference.update == 0 {
        return Vec::new();
    }
    // Pods that are to be deleted are not in the number: they are replaced, not updated.
    let waiting: Vec<&Member<'_>> = working
        .members
        .iter()
        .filter(|member| member.is_updated != forward && !member.is_preparing_delete())
        .filter(|member| !member.is_specified && !waits_for_grace(member) && !is_held(working, member))
        .collect();
    let number = usize::try_from(update.difference.update.abs()).unwrap_or(usize::MAX);
    let mut chosen = Vec::new();
    for member in ordered(working, &waiting) {
        if chosen.len() >= number {
            break;
        }
        let way = policy.way(member.pod);
        if let (Err(reason), true) = (&way, policy.only_in_place) {
            update.report(format!(
                "find Pod {} update strategy is InPlaceOnly but can not update in-place: {reason}",
                member.name()
            ));
            update.impossible.insert(member.name().to_owned(), reason.clone());
            continue;
        }
        chosen.push(member);
    }
    chosen
}

/// Goes on with updates and lifecycles under way. Gives the names of the Pods that are written to.
fn go_on<'w, 'a>(
    working: &'w Working<'a>,
    turn: &Turn<'_>,
    policy: &mut Policy<'w, 'a>,
    update: &mut Update,
) -> HashSet<&'a str> {
    let mut busy = HashSet::new();
    let hooks = &working.set().spec.lifecycle;
    for member in &working.members {
        let pod = member.pod;
        // One that prepares for an update that is not to come any more goes back to its life.
        let updated = match member.state {
            Some(State::PreparingUpdate) => !turn.chosen.contains(member.name()) && !is_held(working, member),
            _ => member.is_updated,
        };
        let refreshed =
            lifecycle::refresh(pod, hooks, Flavour::CloneSet, &working.rules, updated, working.now);
        let mut writes = match refreshed {
            // Its gate was closed for the update that begins now, and need not open before.
            Ok(refresh)
                if refresh.opens_gate_only()
                    && turn.taken.contains(member.name())
                    && starts_now(working, member, policy) =>
            {
                Vec::new()
            }
            Ok(refresh) => {
                update.requeue_after(refresh.requeue);
                if let Progress::Waiting(incomplete) = refresh.progress {
                    update.incomplete.insert(member.name().to_owned(), incomplete);
                }
                refresh.writes
            }
            Err(error) => {
                update.report(format!("pod {}: {error}", member.name()));
                Vec::new()
            }
        };
        add_template_hash(pod, &mut writes);
        if !writes.is_empty() {
            busy.insert(member.name());
            update.actions.push(Action::WritePod {
                pod: Seen::pod(pod),
                writes,
                reason: WriteReason::Progress,
                revision: String::new(),
            });
        }
    }
    busy
}

/// Pods of very old versions of OpenKruise lack the label.
fn add_template_hash(pod: &ObservedPod, writes: &mut Vec<PodWrite>) {
    let Some(revision) = pod.label(CONTROLLER_REVISION_HASH).filter(|revision| !revision.is_empty()) else {
        return;
    };
    if pod.label(POD_TEMPLATE_HASH).is_some() {
        return;
    }
    if writes.is_empty() {
        writes.push(PodWrite::default());
    }
    if let Some(write) = writes.last_mut().filter(|write| !write.labels.contains_key(POD_TEMPLATE_HASH)) {
        write.set_label(POD_TEMPLATE_HASH, short_hash(revision));
    }
}

/// The Pod is updated in place by this plan.
fn starts_now<'a>(working: &Working<'a>, member: &Member<'a>, policy: &mut Policy<'_, 'a>) -> bool {
    policy.way(member.pod).is_ok()
        && lifecycle::before_update(member.pod, &working.set().spec.lifecycle, working.now)
            == BeforeUpdate::Update
}

/// Its update was refused a short time ago.
fn is_held(working: &Working<'_>, member: &Member<'_>) -> bool {
    working.snapshot.held.contains_key(&member.pod.metadata.uid)
}

/// Its last change has not begun, and must end before the next.
fn waits_for_grace(member: &Member<'_>) -> bool {
    inplace::in_grace(member.pod) && member.state != Some(State::Updated)
}

fn ordered<'m, 'a>(working: &Working<'a>, waiting: &[&'m Member<'a>]) -> Vec<&'m Member<'a>> {
    let rolling = &working.set().spec.update_strategy.rolling_update;
    let order = UpdateOrder::of_workload(Some(&rolling.priority_strategy), &rolling.scatter_strategy);
    let pods: Vec<&ObservedPod> = waiting.iter().map(|member| &**member.pod).collect();
    let all: Vec<&ObservedPod> = working.members.iter().map(|member| &**member.pod).collect();
    order.sort(&pods, &all).into_iter().filter_map(|position| waiting.get(position).copied()).collect()
}

/// Which Pods the budget bears (spec 31 §9 step 7).
struct Choice {
    limit: i64,
    /// Pods that are not available, or will be deleted.
    unavailable: i64,
    /// Of these, such as are at the target revision.
    unavailable_at_target: i64,
    taken: i64,
}

impl Choice {
    fn new(working: &Working<'_>, target: &StoredRevision, forward: bool, limit: i64) -> Self {
        let mut choice = Self { limit, unavailable: 0, unavailable_at_target: 0, taken: 0 };
        for member in &working.members {
            let at_target =
                if forward { member.is_updated } else { REVISION_LABELS.is_at(member.pod, target.name()) };
            if !member.is_available {
                choice.unavailable += 1;
                choice.unavailable_at_target += i64::from(at_target);
            } else if member.is_specified {
                choice.unavailable += 1;
            }
        }
        choice
    }

    /// The Pods that the budget bears, in their order. One that is not available costs nothing of it, so it is
    /// taken also behind others that have to wait; but too many Pods that are not available at the target
    /// revision stop a rollout that goes wrong.
    fn among<'w, 'a>(mut self, chosen: &[&'w Member<'a>]) -> Vec<&'w Member<'a>> {
        let mut taken = Vec::new();
        for member in chosen {
            let tried = self.unavailable_at_target + self.taken;
            // Of Pods that serve nobody one may be tried even where the budget is used up: it takes nothing
            // away.
            if tried >= self.limit.max(1) {
                break;
            }
            if member.is_available {
                if tried >= self.limit || self.unavailable >= self.limit {
                    continue;
                }
                self.unavailable += 1;
            }
            self.taken += 1;
            taken.push(*member);
        }
        taken
    }
}

/// How Pods come to the target revision.
struct Policy<'w, 'a> {
    working: &'w Working<'a>,
    target: &'w StoredRevision,
    recreates: bool,
    only_in_place: bool,
    /// The answer for each revision that Pods are at, by its hash.
    known: HashMap<&'a str, Result<UpdateSpec, Reason>>,
}

impl<'w, 'a> Policy<'w, 'a> {
    fn new(working: &'w Working<'a>, target: &'w StoredRevision) -> Self {
        let policy = &working.set().spec.update_strategy.rolling_update.pod_update_policy;
        Self {
            working,
            target,
            recreates: !matches!(
                policy,
                Some(PodUpdatePolicy::InPlaceIfPossible | PodUpdatePolicy::InPlaceOnly)
            ),
            only_in_place: *policy == Some(PodUpdatePolicy::InPlaceOnly),
            known: HashMap::new(),
        }
    }

    /// The change that updates the Pod in place, or why it must be recreated.
    fn way(&mut self, pod: &'a ObservedPod) -> Result<UpdateSpec, Reason> {
        if self.recreates {
            // Nobody asks why.
            return Err(Reason::UnknownRevision);
        }
        let hash = short_hash(pod.label(CONTROLLER_REVISION_HASH).unwrap_or_default());
        if let Some(known) = self.known.get(hash) {
            return known.clone();
        }
        let way = self.decide(pod);
        self.known.insert(hash, way.clone());
        way
    }

    fn decide(&self, pod: &ObservedPod) -> Result<UpdateSpec, Reason> {
        let working = self.working;
        let mut history = working.history.iter();
        let old = history.find(|revision| REVISION_LABELS.is_at(pod, revision.name()));
        let old = old.ok_or(Reason::UnknownRevision)?;
        let template = |revision: &StoredRevision| {
            compared_template::of_revision(revision).map_err(|error| Reason::Unreadable(error.to_string()))
        };
        let strategy = &working.set().spec.update_strategy.rolling_update.in_place_update_strategy;
        let claims_count = working.snapshot.gates.enabled(Feature::RecreatePodWhenChangeVCTInCloneSetGate)
            && !self.only_in_place;
        let options = working.rules.options(
            self.target.name(),
            strategy.grace_period_seconds.unwrap_or(0),
            claims_count && !old.claims_agree_with(self.target),
        );
        inplace::decide(&template(old)?, &template(self.target)?, &options)
    }
}

/// Updates one Pod: in place by `spec`, else by having it deleted.
fn update_pod(
    working: &Working<'_>,
    target: &StoredRevision,
    member: &Member<'_>,
    spec: Option<UpdateSpec>,
    update: &mut Update,
) {
    let pod = member.pod;
    let write = |writes, reason| Action::WritePod {
        pod: Seen::pod(pod),
        writes,
        reason,
        revision: target.name().to_owned(),
    };
    let Some(spec) = spec else {
        let label = lifecycle::specify_delete(pod);
        update.actions.extend(label.map(|label| write(vec![label], WriteReason::Recreate)));
        return;
    };
    match lifecycle::before_update(pod, &working.set().spec.lifecycle, working.now) {
        BeforeUpdate::Wait => {}
        BeforeUpdate::Prepare(writes) if writes.is_empty() => {}
        BeforeUpdate::Prepare(writes) => update.actions.push(write(writes, WriteReason::PrepareUpdate)),
        BeforeUpdate::Refuse(state) => {
            let name = member.name();
            update.report(format!("not allowed to in-place update pod {name} in state {state}"));
        }
        BeforeUpdate::Update => {
            let started = inplace::start(pod, &spec, &working.rules, working.now);
            update.requeue_after(started.requeue);
            update.actions.push(write(started.writes, WriteReason::UpdateInPlace));
        }
    }
}
