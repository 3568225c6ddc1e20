//! The part of an update step that is the same for all workloads: what continues with Pods under update, whether
//! a Pod can be updated in place, and the update of one Pod. Which Pods are updated is up to the kind.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use api::kinds::shared::{Lifecycle, PodUpdatePolicy};
use api::labels::{CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH};
use jiff::Timestamp;

use super::action::{Action, WriteReason};
use super::compared_template;
use super::member::Member;
use super::object_version::ObjectVersion;
use super::revision::StoredRevision;
use super::snapshot::Refusal;
use pod::inplace::{self, Incomplete, Obstacle, Progress, Reason, Rules, UpdateSpec};
use pod::lifecycle::{self, BeforeUpdate, Flavour, State};
use pod::observed::ObservedPod;
use pod::revision_labels::{RevisionLabels, short_hash};
use pod::write::PodWrite;
use values::event::{Event, warning};

/// What an update step comes to.
#[derive(Debug, Default)]
pub struct UpdateStep {
    /// What to do.
    pub actions: Vec<Action>,
    /// Why it is not complete.
    pub problem: Option<String>,
    /// When to reconcile again, whatever happens.
    pub requeue: Option<Duration>,
    /// What updates in progress wait for, by Pod.
    pub incomplete: BTreeMap<String, Incomplete>,
    /// Pods that `InPlaceOnly` keeps as they are, and why.
    pub impossible: BTreeMap<String, Reason>,
    /// What to tell, whatever becomes of the actions.
    pub events: Vec<Event>,
}

impl UpdateStep {
    fn requeue_after(&mut self, delay: Option<Duration>) {
        self.requeue = [self.requeue, delay].into_iter().flatten().min();
    }

    /// The first problem is the one to report.
    fn report(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

/// The Pods whose turn it is, by name.
#[derive(Debug, Default)]
pub struct Turn<'a> {
    /// All of them.
    pub chosen: HashSet<&'a str>,
    /// Those that the budget bears now.
    pub taken: HashSet<&'a str>,
}

/// How the Pods of one workload are updated.
#[derive(Clone, Copy, Debug)]
pub struct Updates<'w> {
    /// How its kind updates Pods in place.
    pub rules: &'w Rules,
    /// The hooks of its Pods.
    pub hooks: &'w Lifecycle,
    /// How its kind uses the lifecycle.
    pub flavour: Flavour,
    /// Pods whose update was refused a short time ago, by UID.
    pub held: &'w BTreeMap<Box<str>, Refusal>,
    /// The time of the plan.
    pub now: Timestamp,
}

impl Updates<'_> {
    /// The Pod's turn may come: no other change of it is in progress, and none was refused.
    pub fn can_begin(&self, member: &Member<'_>) -> bool {
        // Its last change has not begun, and must end before the next.
        let waits_for_grace = inplace::in_grace(member.pod) && member.state != Some(State::Updated);
        !waits_for_grace && !self.is_held(member)
    }

    fn is_held(&self, member: &Member<'_>) -> bool {
        self.held.contains_key(&member.pod.metadata.uid)
    }

    /// Continues with updates and lifecycles in progress. Gives the names of the Pods that are written to.
    pub fn go_on<'a>(
        &self,
        members: &[Member<'a>],
        turn: &Turn<'_>,
        policy: &mut Policy<'_, 'a>,
        step: &mut UpdateStep,
    ) -> HashSet<&'a str> {
        let mut busy = HashSet::new();
        for member in members {
            let pod = member.pod;
            // One that prepares for an update that was cancelled returns to `Normal`.
            let updated = match member.state {
                Some(State::PreparingUpdate) => !turn.chosen.contains(member.name()) && !self.is_held(member),
                _ => member.is_updated,
            };
            let refreshed = lifecycle::refresh(pod, self.hooks, self.flavour, self.rules, updated, self.now);
            let mut writes = match refreshed {
                // Its gate was closed for the update that begins now, and need not open before.
                Ok(refresh)
                    if refresh.opens_gate_only()
                        && turn.taken.contains(member.name())
                        && self.starts_now(member, policy) =>
                {
                    Vec::new()
                }
                Ok(refresh) => {
                    step.requeue_after(refresh.requeue);
                    if let Progress::Waiting(incomplete) = refresh.progress {
                        policy.tell_of(member, &incomplete, step);
                        step.incomplete.insert(member.name().to_owned(), incomplete);
                    }
                    refresh.writes
                }
                Err(error) => {
                    step.report(format!("pod {}: {error}", member.name()));
                    Vec::new()
                }
            };
            if matches!(self.rules.labels, RevisionLabels::CloneSet { .. }) {
                add_template_hash(pod, &mut writes);
            }
            if !writes.is_empty() {
                busy.insert(member.name());
                step.actions.push(Action::write_pod(pod, writes, WriteReason::Progress));
            }
        }
        busy
    }

    /// The update takes the Pod out of no service: it needs no budget.
    pub fn keeps_serving<'a>(&self, member: &Member<'a>, policy: &mut Policy<'_, 'a>) -> bool {
        policy.way(member.pod).is_ok_and(|spec| spec.changes_only_metadata())
            && self.starts_now(member, policy)
    }

    /// The Pod is updated in place by this plan.
    fn starts_now<'a>(&self, member: &Member<'a>, policy: &mut Policy<'_, 'a>) -> bool {
        policy.way(member.pod).is_ok()
            && lifecycle::before_update(member.pod, self.hooks, self.now) == BeforeUpdate::Update
    }

    /// Has a Pod deleted that was not [updated in place](Self::update_in_place), by its label.
    pub fn specify_delete(&self, member: &Member<'_>, target: &StoredRevision, step: &mut UpdateStep) {
        let label = lifecycle::specify_delete(member.pod);
        step.actions.extend(label.map(|label| Action::WritePod {
            pod: ObjectVersion::pod(member.pod),
            writes: vec![label],
            reason: WriteReason::Recreate,
            revision: target.name().to_owned(),
        }));
    }

    /// Updates one Pod to the target of the policy in place; false where that is not possible and a new Pod is
    /// needed.
    #[must_use]
    pub fn update_in_place<'a>(
        &self,
        member: &Member<'a>,
        policy: &mut Policy<'_, 'a>,
        step: &mut UpdateStep,
    ) -> bool {
        let pod = member.pod;
        let way = policy.way(pod);
        let write = |writes, reason| Action::WritePod {
            pod: ObjectVersion::pod(pod),
            writes,
            reason,
            revision: policy.target.name().to_owned(),
        };
        let Ok(spec) = way else { return false };
        match lifecycle::before_update(pod, self.hooks, self.now) {
            BeforeUpdate::Wait => {}
            BeforeUpdate::Prepare(writes) if writes.is_empty() => {}
            BeforeUpdate::Prepare(writes) => step.actions.push(write(writes, WriteReason::PrepareUpdate)),
            BeforeUpdate::Refuse(state) => {
                let name = member.name();
                step.report(format!("not allowed to in-place update pod {name} in state {state}"));
            }
            BeforeUpdate::Update => {
                let started = inplace::start(pod, &spec, self.rules, self.now);
                step.requeue_after(started.requeue);
                step.actions.push(write(started.writes, WriteReason::UpdateInPlace));
            }
        }
        true
    }
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

/// How Pods come to a revision.
#[derive(Debug)]
pub struct Policy<'w, 'a> {
    /// How the kind updates Pods in place.
    pub rules: &'w Rules,
    /// All revisions of the workload.
    pub history: &'w [&'a StoredRevision],
    /// The revision that Pods go to.
    pub target: &'w StoredRevision,
    /// What the user allows.
    pub allowed: PodUpdatePolicy,
    /// Seconds that a Pod has after it left its service and before it is changed.
    pub grace_seconds: i32,
    /// A change of the volume claim templates needs new Pods too.
    pub claims_count: bool,
    /// The answer for each revision that Pods are at, by its hash.
    known: HashMap<&'a str, Result<UpdateSpec, Reason>>,
}

impl<'w, 'a> Policy<'w, 'a> {
    /// How Pods come to `target`.
    pub fn new(
        rules: &'w Rules,
        history: &'w [&'a StoredRevision],
        target: &'w StoredRevision,
        allowed: PodUpdatePolicy,
    ) -> Self {
        let (grace_seconds, claims_count) = (0, false);
        Self { rules, history, target, allowed, grace_seconds, claims_count, known: HashMap::new() }
    }

    /// The change that updates the Pod in place, or why it must be recreated.
    fn way(&mut self, pod: &'a ObservedPod) -> Result<UpdateSpec, Reason> {
        if !self.is_in_place() {
            // Nobody asks why.
            return Err(Reason::UnknownRevision);
        }
        let hash = short_hash(pod.label(CONTROLLER_REVISION_HASH).unwrap_or_default());
        if let Some(known) = self.known.get(hash) {
            return known.clone();
        }
        let old = self.history.iter().find(|revision| self.rules.labels.is_at(pod, revision.name()));
        let way = old.ok_or(Reason::UnknownRevision).and_then(|old| self.change_from(old));
        self.known.insert(hash, way.clone());
        way
    }

    fn is_in_place(&self) -> bool {
        matches!(self.allowed, PodUpdatePolicy::InPlaceIfPossible | PodUpdatePolicy::InPlaceOnly)
    }

    /// The Pod can be updated as the user allows. Where it can't, `step` says why.
    pub fn allows(&mut self, member: &Member<'a>, step: &mut UpdateStep) -> bool {
        match self.way(member.pod) {
            Err(reason) if self.allowed == PodUpdatePolicy::InPlaceOnly => {
                self.keep(member, reason, step);
                false
            }
            _ => true,
        }
    }

    /// This Pod can be updated in place.
    pub fn is_possible_for(&mut self, member: &Member<'a>) -> bool {
        self.way(member.pod).is_ok()
    }

    fn is_at_target(&self, member: &Member<'_>) -> bool {
        self.rules.labels.is_at(member.pod, self.target.name())
    }

    /// Tells of a resize that its Node can't do.
    fn tell_of(&self, member: &Member<'_>, incomplete: &Incomplete, step: &mut UpdateStep) {
        let Incomplete::Resize(problem) = incomplete else { return };
        let (name, revision) = (member.name(), self.target.name());
        // One tells enough of a Node, or of a template, that fits no other Pod either.
        if step.events.is_empty() {
            let message = format!("failed to update pod {name} in-place(revision {revision}): {problem}");
            step.events.push(warning("FailedUpdatePodInPlace", message));
        }
        let stays = self.allowed == PodUpdatePolicy::InPlaceOnly && self.is_at_target(member);
        if stays && problem.obstacle == Obstacle::Infeasible {
            self.keep(member, Reason::Resize(problem.clone()), step);
        }
    }

    /// `InPlaceOnly` keeps the Pod as it is.
    fn keep(&self, member: &Member<'_>, reason: Reason, step: &mut UpdateStep) {
        let name = member.name();
        step.report(format!(
            "find Pod {name} update strategy is InPlaceOnly but can not update in-place: {reason}"
        ));
        step.impossible.insert(name.to_owned(), reason);
    }

    /// Pods of revision `old` can be updated in place.
    pub fn is_possible_from(&self, old: &StoredRevision) -> bool {
        self.is_in_place() && self.change_from(old).is_ok()
    }

    fn change_from(&self, old: &StoredRevision) -> Result<UpdateSpec, Reason> {
        let template = |revision: &StoredRevision| {
            compared_template::of_revision(revision).map_err(|error| Reason::Unreadable(error.to_string()))
        };
        let claims_differ = self.claims_count && !old.claims_agree_with(self.target);
        let options = self.rules.options(self.target.name(), self.grace_seconds, claims_differ);
        inplace::decide(&template(old)?, &template(self.target)?, &options)
    }
}
