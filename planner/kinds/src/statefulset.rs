//! Advanced StatefulSet: Pods with names and claims of their own, numbered, managed one after another or all at
//! once, updated in place where possible (docs/behaviour/statefulset.md).
//!
//! ```text
//!   defaulting, validation   what the webhooks do
//!
//!   Snapshot --plan--> Plan      one snapshot of everything, one list of actions
//!     settings     what is asked for               identity   names, labels and volumes of Pods and claims
//!     working      the slots, and what is in them
//!     scale        creates and deletes             update     which Pods are updated, and how
//!     claims       whose they are, how they grow   upkeep     keeps Pods and claims what they are
//!     status       what the status says            events     the Events about each action
//!     explanation  what blocks progress
//! ```
//!
//! [`plan`] is a pure function. The same snapshot, in whatever order its lists are, and the same
//! [`Moment`] give the same plan.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

use api::kinds::shared::Condition as StoredCondition;
use api::kinds::statefulset::{API_VERSION, KIND, PLURAL, StatefulSet, Status};
use api::labels::CONTROLLER_HASH;
use api::meta::LabelSelector;

use crate::workload::action::{Action, Part};
use crate::workload::children::Claim;
use crate::workload::claims::templates;
use crate::workload::conditions::Condition;
use crate::workload::kind::{Workload, WorkloadStatus};
use crate::workload::ordinal;
use crate::workload::plan::{Plan, Problems};
use crate::workload::revision::{self, HISTORY_LIMIT, Limit, StoredRevision};
use crate::workload::rollout_batch;
use crate::workload::snapshot::Snapshot;
use crate::workload::start::{self, Start};
use pod::observed::ObservedPod;
use values::event::Event;
use values::moment::{Moment, just_after};

mod claims;
pub mod defaulting;
mod events;
mod explanation;
#[cfg(test)]
mod fixture;
pub mod identity;
mod pre_download;
mod scale;
pub mod settings;
mod status;
#[cfg(test)]
mod tests;
mod update;
mod upkeep;
pub mod validation;
mod working;

use claims::Claims;
use working::{Numbered, Working};

impl Workload for StatefulSet {
    const API_VERSION: &'static str = API_VERSION;
    const KIND: &'static str = KIND;
    const PLURAL: &'static str = PLURAL;
    const HAS_ORDINALS: bool = true;

    fn selector(&self) -> &LabelSelector {
        &self.spec.selector
    }

    fn reads_nodes(&self, _pods: usize) -> bool {
        false
    }

    fn pod_of_claim(&self, claim: &Claim) -> Option<String> {
        let (_, ordinal) = ordinal::split(&claim.metadata.name)?;
        Some(identity::pod_name(&self.metadata.name, ordinal))
    }

    fn claim_stems(&self, pods: &[Arc<ObservedPod>], revisions: &[Arc<StoredRevision>]) -> Vec<String> {
        let names = claims::names(self, pods, revisions).into_iter();
        names.map(|name| identity::claim_stem(&name, &self.metadata.name)).collect()
    }

    fn success(&self, action: &Action, part: Part<'_>) -> Option<Event> {
        events::success(&self.metadata.name, action, part)
    }

    fn failure(&self, action: &Action, part: Part<'_>, error: &dyn Display) -> Option<Event> {
        events::failure(&self.metadata.name, action, part, error)
    }

    fn plan(snapshot: &Snapshot<'_, Self>, moment: Moment) -> Plan<Status> {
        plan(snapshot, moment)
    }
}

impl WorkloadStatus for Status {
    const REQUIRED: &'static [&'static str] =
        &["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"];
    const FAILED_SCALE: (&'static str, &'static str) =
        ("FailedCreatePod", "StatefulPodControl failed to create Pod error: ");
    const FAILED_UPDATE: (&'static str, &'static str) =
        ("FailedUpdatePod", "StatefulPodControl failed to update Pod error: ");

    fn observed_generation(&self) -> Option<i64> {
        self.observed_generation
    }

    fn update_revision(&self) -> &str {
        &self.update_revision
    }

    fn current_revision(&self) -> &str {
        &self.current_revision
    }

    fn collision_count(&self) -> Option<i32> {
        self.collision_count
    }

    fn conditions(&self) -> Vec<Condition> {
        self.conditions.iter().map(Condition::from).collect()
    }

    fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.conditions = conditions.into_iter().map(StoredCondition::from).collect();
    }
}

/// Decides what to do about a StatefulSet.
///
/// # Guarantees
/// - No two Pods have one name: a Pod is created only where none of its name is known.
/// - Carried out in whole or in part, a plan never takes more available Pods away for an update than
///   `maxUnavailable` allows, and none that `partition` keeps.
/// - A StatefulSet that is being deleted gets a status and nothing else.
pub fn plan(snapshot: &Snapshot<'_, StatefulSet>, moment: Moment) -> Plan<Status> {
    let set = snapshot.workload;
    let templates = match templates(set.spec.volume_claim_templates.as_ref()) {
        Ok(templates) => templates,
        Err(problem) => return Plan::impossible(set, problem, moment.now),
    };
    let choose = |history: &[_]| {
        let mut wanted = start::wanted(snapshot, set.spec.template.as_ref(), CONTROLLER_HASH)?;
        wanted.claims = Some(set.spec.volume_claim_templates.as_ref().map_or("[]", |claims| claims.get()));
        Ok(revision::choose(wanted, history))
    };
    let start = match Start::of(snapshot, moment.now, choose) {
        Ok(start) => start,
        Err(plan) => return *plan,
    };
    let working = Working::new(snapshot, start, Claims::of(snapshot, templates), moment.now);
    if set.metadata.deletion_timestamp.is_some() {
        return Plan { status: Some(status::observe(&working, 0)), ..Plan::default() };
    }
    steps(&working)
}

/// All steps, and what follows from them.
fn steps(working: &Working<'_>) -> Plan<Status> {
    let upkeep = upkeep::identity(working);
    let written: HashSet<&str> = upkeep.actions.iter().map(Action::object).collect();
    let mut scale = scale::plan(working, &written);
    let busy = written.iter().copied().chain(scale.deletions.iter().map(Action::object)).collect();
    let update = update::plan(working, &scale, &busy);
    let problems = Problems {
        scale: scale.problem.clone(),
        update: upkeep.problem.clone().or_else(|| update.step.problem.clone()),
    };
    let release = upkeep::membership(working);
    let is_moving = [&release, &upkeep.actions, &scale.creations, &scale.deletions, &update.step.actions]
        .iter()
        .any(|actions| !actions.is_empty());
    let explanation = explanation::explain(working, &scale, &update, &problems, is_moving);
    let mut status = status::observe(working, update.leaving_current);
    let standing = explanation.record(&mut status, working.now);
    let (live, labels) = ([working.current, working.update], working.rules.labels);
    let pods = working.pods().map(Numbered::pod);
    let limit = working.set().spec.revision_history_limit.unwrap_or(HISTORY_LIMIT).max(0);
    let available = working.pods().filter_map(|pod| pod.member.available_at).min();
    let times = [available, standing, update::next_new_pod(working)].into_iter().flatten();
    let delays = times.map(|time| just_after(time, working.now)).chain(update.step.requeue);
    let requeue_after = delays.min();
    let mut changes = upkeep.actions;
    changes.append(&mut scale.deletions);
    changes.extend(update.step.actions);
    let plan = Plan {
        release,
        problems,
        scale: scale.creations,
        update: changes,
        pre_download: pre_download::plan(working),
        status: Some(status),
        obsolete_revisions: revision::unused(&working.history, &live, labels, pods, Limit::Unused(limit)),
        events: update.step.events,
        requeue_after,
        explanation,
        ..Plan::default()
    };
    rollout_batch::labelled(plan, &working.set().metadata, working.update.name())
}
