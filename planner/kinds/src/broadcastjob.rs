//! BroadcastJob: a Pod that runs to its end on every Node that suits it (docs/behaviour/broadcastjob.md).
//!
//! ```text
//!   defaulting, validation   what the webhooks do
//!
//!   Snapshot --plan--> Plan      one snapshot of everything, one list of actions
//!     fit          which Nodes suit the template    working  the Nodes, and the Pods on them
//!     phase        where the job is, and whether it ends     pod   the Pod of a Node
//!     events       the Events about each action      explanation  what blocks progress
//! ```
//!
//! [`plan`] is a pure function. The same snapshot, in whatever order its lists are, and the same
//! [`Moment`] give the same plan.

use std::fmt::Display;
use std::time::Duration;

use api::kinds::Time;
use api::kinds::broadcastjob::{API_VERSION, BroadcastJob, KIND, PLURAL, Status};
use api::kinds::shared::{CompletionPolicyType, ConditionStatus};
use api::meta::LabelSelector;
use jiff::{SignedDuration, Timestamp};

use crate::workload::action::{Action, ChildKind, DeleteReason, Part};
use crate::workload::kind::{Workload, WorkloadStatus};
use crate::workload::object_version::ObjectVersion;
use crate::workload::plan::{Plan, Problems};
use crate::workload::snapshot::Snapshot;
use crate::workload::status::StatusPlan;
use ::pod::node_fit::NodeFacts;
use ::pod::observed::ObservedPod;
use values::event::{Event, warning};
use values::moment::{Moment, just_after};

pub mod defaulting;
mod events;
mod explanation;
pub mod fit;
mod phase;
mod pod;
#[cfg(test)]
mod tests;
pub mod validation;
mod working;

use fit::Requirements;
use working::{Class, Working};

/// BroadcastJobs, which delete themselves when their time is over.
const BROADCAST_JOB: ChildKind =
    ChildKind { group: api::APPS_GROUP, version: "v1beta1", plural: PLURAL, kind: KIND };
/// Pods are found by their owner alone.
static EVERY_POD: LabelSelector = LabelSelector { match_labels: None, match_expressions: None };

impl Workload for BroadcastJob {
    const API_VERSION: &'static str = API_VERSION;
    const KIND: &'static str = KIND;
    const PLURAL: &'static str = PLURAL;
    const HAS_POD_PER_NODE: bool = true;

    fn selector(&self) -> &LabelSelector {
        &EVERY_POD
    }

    fn reads_nodes(&self, _pods: usize) -> bool {
        !is_finished(self)
    }

    fn is_concerned(&self, name: &str, old: Option<&NodeFacts>, new: Option<&NodeFacts>) -> bool {
        if is_finished(self) {
            return false;
        }
        let Ok(requirements) = Requirements::of(self.spec.template.as_ref()) else { return false };
        let fits = |node: Option<&NodeFacts>| node.is_some_and(|node| requirements.fits(name, node));
        fits(old) != fits(new)
    }

    /// Others than its own Pods are none of its business.
    fn could_adopt(_pod: &ObservedPod) -> bool {
        false
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

/// The conditions of a job say what it came to, and the plan writes them itself: those that report trouble with other
/// workloads stay away.
impl WorkloadStatus for Status {
    const REQUIRED: &'static [&'static str] = &["active", "desired", "failed", "succeeded", "phase"];
    const TELLS_GENERATION: bool = false;

    fn is_written(&self) -> bool {
        !self.phase.is_empty()
    }
}

/// The job serves Nodes that join later, and never ends well.
pub fn stays(job: &BroadcastJob) -> bool {
    job.spec.completion_policy.kind == Some(CompletionPolicyType::Never)
}

/// The job is over.
pub fn is_finished(job: &BroadcastJob) -> bool {
    let mut conditions = job.status.conditions.iter();
    !stays(job)
        && conditions.any(|known| {
            matches!(known.kind.as_str(), "Complete" | "Failed") && known.status == ConditionStatus::True
        })
}

/// Decides what to do about a BroadcastJob.
///
/// # Guarantees
/// - A Pod is created only on a Node that suits the template and has none of the job, whatever state that is in: where
///   one succeeded, no other runs.
/// - Carried out in whole or in part, a plan never has more Pods run than `parallelism` allows.
/// - A BroadcastJob that is being deleted is left alone.
pub fn plan(snapshot: &Snapshot<'_, BroadcastJob>, moment: Moment) -> Plan<Status> {
    let job = snapshot.workload;
    if job.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let requirements = match Requirements::of(job.spec.template.as_ref()) {
        Ok(requirements) => requirements,
        Err(problem) => return Plan::impossible(job, problem, moment.now),
    };
    let working = Working::new(snapshot, &requirements, moment.now);
    if is_finished(job) {
        return clean_up(&working);
    }
    let turn = phase::turn(&working);
    let mut plan = Plan { events: turn.events, ..Plan::default() };
    let mut problem = None;
    // Pods go once the status says what the job came to: nothing else reports them then.
    if turn.has_failed {
        plan.scale = end(&working);
    } else if turn.goes_on {
        plan.scale = working.misplaced().map(|pod| delete(pod, DeleteReason::Misplaced)).collect();
        plan.scale.extend(create(&working, moment, &mut plan.events, &mut problem));
    }
    plan.explanation = explanation::explain(&working, &turn.status, !plan.scale.is_empty());
    plan.problems = Problems { scale: problem, update: None };
    plan.requeue_after = turn.again.map(|time| just_after(time, moment.now));
    plan.status = Some(StatusPlan::new(job, turn.status, moment.now));
    plan
}

/// What is left to do about a job that is over: no Pod continues, and in the end it deletes itself.
fn clean_up(working: &Working<'_>) -> Plan<Status> {
    let job = working.job();
    let mut plan = Plan { scale: end(working), ..Plan::default() };
    plan.explanation = explanation::explain(working, &job.status, !plan.scale.is_empty());
    let completed = job.status.completion_time.as_ref().and_then(Time::timestamp);
    let ttl = job.spec.completion_policy.ttl_seconds_after_finished;
    if let Some((completed, ttl)) = completed.zip(ttl) {
        let due = after(completed, ttl.into());
        if due <= working.now {
            let child = ObjectVersion::object(&job.metadata);
            plan.scale.push(Action::DeleteChild { kind: BROADCAST_JOB, child });
        } else {
            plan.requeue_after = Some(just_after(due, working.now));
        }
    }
    plan
}

/// Deletes the Pods that have not ended and are not asked to.
fn end(working: &Working<'_>) -> Vec<Action> {
    let pods = working.pods().filter(|pod| matches!(pod.class, Class::Active | Class::Broken));
    pods.map(|pod| delete(pod, DeleteReason::ScaleIn)).collect()
}

fn delete(pod: &working::JobPod<'_>, reason: DeleteReason) -> Action {
    Action::delete_pod(pod.pod, reason)
}

/// Creates Pods on the first Nodes that lack one, as many as may run.
fn create(
    working: &Working<'_>,
    moment: Moment,
    events: &mut Vec<Event>,
    problem: &mut Option<String>,
) -> Vec<Action> {
    if working.lacking().next().is_none() {
        return Vec::new();
    }
    let Some(limit) = working.parallelism() else {
        *problem = Some("spec.parallelism is neither a number nor a percentage".to_owned());
        return Vec::new();
    };
    let active = working.active();
    if active > limit {
        let message = "Number of active pods exceed parallelism limit";
        events.push(warning("TooManyActivePods", message.to_owned()));
    }
    let mut random = moment.random();
    // Where a Pod was refused, it is tried again after all others: after a failure no others are tried.
    let mut nodes: Vec<&str> = working.lacking().collect();
    nodes.sort_by_key(|node| working.snapshot.refused.contains(*node));
    nodes.truncate(limit.saturating_sub(active));
    let mut created = Vec::new();
    for node in nodes {
        match pod::create(working, node, &mut random) {
            Ok(action) => created.push(action),
            Err(error) => drop(problem.get_or_insert(error)),
        }
    }
    created
}

/// So many seconds later, or as late as can be.
fn after(time: Timestamp, seconds: i64) -> Timestamp {
    let seconds = SignedDuration::try_from(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    time.saturating_add(seconds.unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
}
