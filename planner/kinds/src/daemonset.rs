//! Advanced DaemonSet: a Pod on every Node that suits it, updated Node by Node, in place where possible
//! (docs/behaviour/daemonset.md).
//!
//! ```text
//!   defaulting, validation   what the webhooks do
//!
//!   Snapshot --plan--> Plan      one snapshot of everything, one list of actions
//!     settings     what is asked for               fit        which Nodes suit the template
//!     working      the Nodes, and the Pods on them pod        the Pod of a Node
//!     scale        which Nodes lack a Pod, and which Pods are not where they belong
//!     update       which Pods are updated, and how status     what the status says
//!     events       the Events about each action     explanation  what blocks progress
//! ```
//!
//! [`plan`] is a pure function. The same snapshot, in whatever order its lists are, and the same
//! [`Moment`] give the same plan.

use std::fmt::Display;

use api::features::Feature;
use api::kinds::daemonset::{API_VERSION, DaemonSet, KIND, PLURAL, Status};
use api::kinds::shared::Condition as StoredCondition;
use api::labels::CONTROLLER_REVISION_HASH;
use api::meta::LabelSelector;

use crate::workload::action::{Action, Part};
use crate::workload::conditions::Condition;
use crate::workload::kind::{Workload, WorkloadStatus};
use crate::workload::membership::Membership;
use crate::workload::plan::{Plan, Problems};
use crate::workload::revision::{self, HISTORY_LIMIT, Limit};
use crate::workload::rollout_batch;
use crate::workload::snapshot::Snapshot;
use crate::workload::start::{self, Start};
use ::pod::node_fit::NodeFacts;
use values::event::{Event, warning};
use values::moment::{Moment, just_after};
use values::selector::{Selector, is_empty};

pub mod defaulting;
mod events;
mod explanation;
pub mod fit;
#[cfg(test)]
mod fixture;
mod pod;
mod pre_download;
mod scale;
pub mod settings;
mod status;
#[cfg(test)]
mod tests;
mod update;
pub mod validation;
mod working;

use fit::Requirements;
use working::Working;

impl Workload for DaemonSet {
    const API_VERSION: &'static str = API_VERSION;
    const KIND: &'static str = KIND;
    const PLURAL: &'static str = PLURAL;
    const HAS_POD_PER_NODE: bool = true;
    const PRE_DOWNLOAD: Feature = Feature::PreDownloadImageForDaemonSetUpdate;

    fn selector(&self) -> &LabelSelector {
        &self.spec.selector
    }

    fn reads_nodes(&self, _pods: usize) -> bool {
        true
    }

    fn is_concerned(&self, name: &str, old: Option<&NodeFacts>, new: Option<&NodeFacts>) -> bool {
        let is_alike =
            |(old, new): (&NodeFacts, &NodeFacts)| old.labels == new.labels && old.taints == new.taints;
        if old.zip(new).is_some_and(is_alike) {
            return false;
        }
        // Without a template that can be read there is nothing to do on any Node.
        let Ok(requirements) = Requirements::of(self.spec.template.as_ref()) else { return false };
        let fit = |node: Option<&NodeFacts>| node.map(|node| requirements.fit(name, node));
        let selector = self.spec.update_strategy.rolling_update.selector.as_ref();
        let selector = selector.and_then(|selector| Selector::compile(selector).ok());
        let is_selected = |node: Option<&NodeFacts>| {
            selector.as_ref().zip(node).is_some_and(|(selector, node)| selector.matches(&node.labels))
        };
        fit(old) != fit(new) || is_selected(old) != is_selected(new)
    }

    fn success(&self, action: &Action, part: Part<'_>) -> Option<Event> {
        events::success(action, part)
    }

    fn failure(&self, action: &Action, part: Part<'_>, error: &dyn Display) -> Option<Event> {
        events::failure(action, part, error)
    }

    fn plan(snapshot: &Snapshot<'_, Self>, moment: Moment) -> Plan<Status> {
        plan(snapshot, moment)
    }
}

impl WorkloadStatus for Status {
    const REQUIRED: &'static [&'static str] = &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
    ];

    fn observed_generation(&self) -> Option<i64> {
        self.observed_generation
    }

    fn update_revision(&self) -> &str {
        &self.update_revision
    }

    /// The update revision once all Nodes have come to it; Pods may come from any other before.
    fn current_revision(&self) -> &str {
        let is_complete = self.updated_number_scheduled == self.desired_number_scheduled;
        if is_complete { &self.update_revision } else { "" }
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

/// Decides what to do about a DaemonSet.
///
/// # Guarantees
/// - A Pod is created only on a Node that suits the template and has none, or for a surge one that is at an older
///   revision or not to stay.
/// - Carried out in whole or in part, a plan never takes more available Pods away for an update than
///   `maxUnavailable` allows, and none that `partition` or the selector keeps.
/// - A DaemonSet that is being deleted is left alone.
pub fn plan(snapshot: &Snapshot<'_, DaemonSet>, moment: Moment) -> Plan<Status> {
    let set = snapshot.workload;
    if set.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let impossible = |problem| Plan::impossible(set, problem, moment.now);
    if is_empty(&set.spec.selector) {
        let message = "This DaemonSet is selecting all pods. A non-empty selector is required.";
        let events = vec![warning("SelectingAll", message.to_owned())];
        return Plan { events, ..impossible("spec.selector is empty: it would select all Pods".to_owned()) };
    }
    let requirements = match Requirements::of(set.spec.template.as_ref()) {
        Ok(requirements) => requirements,
        Err(problem) => return impossible(problem),
    };
    let choose = |history: &[_]| {
        let wanted = start::wanted(snapshot, set.spec.template.as_ref(), CONTROLLER_REVISION_HASH)?;
        Ok(revision::choose(wanted, history))
    };
    match Start::of(snapshot, moment.now, choose) {
        Ok(start) => steps(&Working::new(snapshot, start, &requirements, moment)),
        Err(plan) => *plan,
    }
}

/// All steps, and what follows from them.
fn steps(working: &Working<'_>) -> Plan<Status> {
    let mut random = working.moment.random();
    let scale = scale::plan(working, &mut random);
    let mut update = update::plan(working, &scale, &mut random);
    let problems = Problems { scale: scale.problem.clone(), update: update.step.problem.clone() };
    let membership = Membership::of::<DaemonSet>(&working.set().metadata);
    let release = working.strangers.iter().map(|pod| membership.release(pod));
    let adopt = working.adoptable.iter().map(|pod| membership.adopt(pod));
    let release: Vec<Action> =
        release.chain(adopt).chain(membership.adopt_revisions(&working.history)).collect();
    let is_moving =
        [&release, &scale.actions, &update.step.actions].iter().any(|actions| !actions.is_empty());
    let explanation = explanation::explain(working, &scale, &update, &problems, is_moving);
    let mut status = status::observe(working);
    let standing = explanation.record(&mut status, working.now);
    let (live, labels) = ([working.update], working.rules.labels);
    let owned = working.snapshot.pods.iter().chain(working.adoptable.iter().copied());
    let limit = working.set().spec.revision_history_limit.unwrap_or(HISTORY_LIMIT).max(0);
    // OpenKruise counts revisions in use too, the present one not.
    let limit = Limit::All(limit.saturating_add(1));
    let available = working.pods().filter_map(|pod| pod.member.available_at).min();
    let times = [available, standing, scale.again].into_iter().flatten();
    let delays = times.map(|time| just_after(time, working.now)).chain(update.step.requeue);
    let mut events = scale.events;
    events.append(&mut update.step.events);
    let plan = Plan {
        release,
        scale: scale.actions,
        update: update.step.actions,
        counts_scale: true,
        pre_download: pre_download::plan(working),
        problems,
        status: Some(status),
        obsolete_revisions: revision::unused(&working.history, &live, labels, owned, limit),
        events,
        requeue_after: delays.min(),
        explanation,
        ..Plan::default()
    };
    rollout_batch::labelled(plan, &working.set().metadata, working.update.name())
}
