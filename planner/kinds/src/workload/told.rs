//! What a status tells of refusals, for whoever has not the memory of the controller that wrote it.
//!
//! The controller remembers what the API server refused, and leaves it alone for a while. Its status says that
//! something was refused, and why, but not all of what; the rest follows from what would be tried first.

use std::collections::BTreeMap;

use api::kinds::shared::ConditionStatus;

use super::action::Action;
use super::conditions::Condition;
use super::explanation::{BLOCKED, Blocker};
use super::kind::{Workload, WorkloadStatus};
use super::plan::Plan;
use super::seen::Seen;
use super::snapshot::{Refusal, Snapshot};
use values::moment::Moment;

/// The conditions by which the status tells of trouble now.
pub fn trouble<S: WorkloadStatus>(status: &S) -> Vec<Condition> {
    let conditions = status.conditions();
    [S::FAILED_SCALE.0, S::FAILED_UPDATE.0, BLOCKED]
        .into_iter()
        .filter_map(|kind| told(&conditions, kind).cloned())
        .collect()
}

fn told<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    let known = super::conditions::condition(conditions, kind);
    known.filter(|condition| condition.status == ConditionStatus::True)
}

/// Plans as [`Workload::plan`] does, but counts what the status tells as refused among what waits.
///
/// Updates that the controller would begin were refused where they are named, or where none is; all of them,
/// where the status says that nothing moves. What it says of an older generation of the workload does not
/// count: the controller tries everything again when that changes.
pub fn plan_as_told<W: Workload>(snapshot: &Snapshot<'_, W>, moment: Moment) -> Plan<W::Status> {
    let mut made = W::plan(snapshot, moment);
    let status = snapshot.workload.status();
    if status.observed_generation() != snapshot.workload.metadata().generation {
        return made;
    }
    let conditions = status.conditions();
    let told_of = |kind| told(&conditions, kind);
    // What can't be planned now either is no refusal.
    let is_refusal = |condition: &&Condition, problem: &Option<String>| {
        !problem.as_ref().is_some_and(|problem| condition.message.ends_with(problem.as_str()))
    };
    if let Some(failed) =
        told_of(W::Status::FAILED_UPDATE.0).filter(|failed| is_refusal(failed, &made.problems.update))
    {
        let is_blocked = told_of(BLOCKED).is_some();
        let mut held = snapshot.held.clone();
        loop {
            let refused = refused(&made, failed, is_blocked);
            let before = held.len();
            held.extend(refused);
            if held.len() == before {
                break;
            }
            made = W::plan(&Snapshot { held: &held, ..*snapshot }, moment);
            if !is_blocked {
                break;
            }
        }
    }
    if let Some(failed) =
        told_of(W::Status::FAILED_SCALE.0).filter(|failed| is_refusal(failed, &made.problems.scale))
    {
        scaling_waits(W::KIND, &mut made, failed);
    }
    made
}

/// Updates of the plan that were refused, by the identity of their Pods.
fn refused<S>(plan: &Plan<S>, failed: &Condition, all: bool) -> BTreeMap<Box<str>, Refusal> {
    let since = failed.since().unwrap_or_default();
    let refusal = || Refusal { message: failed.message.as_str().into(), since };
    let begun = plan.update.iter().filter_map(Action::updated_pod);
    let is_named = |pod: &Seen| names(&failed.message, &pod.name);
    let any_named = !all && begun.clone().any(is_named);
    let refused = begun.filter(|pod| !any_named || is_named(pod));
    refused.map(|pod| (pod.uid.as_str().into(), refusal())).collect()
}

/// True if `message` has `name` in it as a whole, not as a part of a longer name.
pub(crate) fn names(message: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '-';
    message.match_indices(name).any(|(start, _)| {
        let (before, after) = (message.get(..start), message.get(start + name.len()..));
        let part = |text: Option<&str>, character: fn(&str) -> Option<char>| {
            text.and_then(character).is_some_and(is_part)
        };
        !part(before, |text| text.chars().next_back()) && !part(after, |text| text.chars().next())
    })
}

/// What the scale step would do was refused.
fn scaling_waits<S: WorkloadStatus>(kind: &str, plan: &mut Plan<S>, failed: &Condition) {
    let creations = plan.scale.iter().filter(|action| matches!(action, Action::CreatePod { .. })).count();
    let others = plan.scale.len() - creations;
    let what = match (creations, others) {
        (0, 0) => return,
        (creations, 0) => format!("{creations} Pods are not created"),
        (0, others) => format!("{others} Pods are not deleted"),
        (creations, others) => format!("{creations} Pods are not created or {others} not deleted"),
    };
    plan.explanation.is_moving = !plan.update.is_empty();
    let blocker = Blocker {
        pod: String::new(),
        reason: S::FAILED_SCALE.0,
        message: format!("{what}: the API server refuses it: {}", failed.message),
        remedy: format!("correct the {kind} or what refuses it; it is tried again every few minutes"),
        since: failed.since(),
    };
    plan.explanation.blockers.insert(0, blocker);
}
