//! Where a job is, and whether it ends (docs/behaviour/broadcastjob.md#phases).

use api::kinds::Time;
use api::kinds::broadcastjob::{FailurePolicyType, Status};
use api::kinds::shared::{ConditionStatus, JobCondition};
use jiff::Timestamp;

use super::working::{Class, Working};
use super::{after, stays};
use values::event::{Event, normal, warning};

/// What is decided about a job that is not over.
pub(super) struct Turn {
    pub(super) status: Status,
    pub(super) events: Vec<Event>,
    /// Pods are created, and misplaced ones deleted.
    pub(super) goes_on: bool,
    /// It has failed before.
    pub(super) has_failed: bool,
    /// When to reconcile again.
    pub(super) again: Option<Timestamp>,
}

/// Why a job fails: a word, and a sentence.
struct Failure {
    reason: &'static str,
    message: String,
}

pub(super) fn turn(working: &Working<'_>) -> Turn {
    let job = working.job();
    let now: Time = working.now.into();
    let number = |count: usize| Some(i32::try_from(count).unwrap_or(i32::MAX));
    let failed = working.count(&[Class::Failed, Class::Broken]);
    let mut status = Status {
        active: number(working.active()),
        failed: number(failed),
        succeeded: number(working.count(&[Class::Succeeded])),
        desired: number(working.desired()),
        start_time: Some(job.status.start_time.clone().unwrap_or_else(|| now.clone())),
        ..job.status.clone()
    };
    // A job that was complete and is to stay now continues.
    if matches!(status.phase.as_str(), "" | "completed") {
        "running".clone_into(&mut status.phase);
        status.completion_time = None;
        status.conditions.retain(|known| known.kind != "Complete");
    }
    let mut turn = Turn {
        status,
        events: duplicates(working).collect(),
        goes_on: false,
        has_failed: false,
        again: None,
    };
    let policy = job.spec.failure_policy.kind.clone().unwrap_or_default();
    let waits = policy == FailurePolicyType::Pause && failed > 0;
    if turn.status.phase == "failed" {
        turn.has_failed = true;
        return turn;
    }
    if job.spec.paused || waits {
        if waits && !job.spec.paused && turn.status.phase != "paused" {
            turn.events.push(warning("Paused", "job is paused, due to failed pod".to_owned()));
        }
        "paused".clone_into(&mut turn.status.phase);
        return turn;
    }
    if turn.status.phase == "paused" {
        turn.events.push(normal("Continue", "continue to process job".to_owned()));
        "running".clone_into(&mut turn.status.phase);
    }
    match failure(working, &policy, failed, &mut turn) {
        Some(failure) => fail(working, failure, &mut turn),
        None => {
            turn.goes_on = true;
            if !stays(job) && working.is_complete() {
                complete(working, &mut turn);
            }
        }
    }
    turn
}

/// Somebody else gave a Node a second Pod.
fn duplicates(working: &Working<'_>) -> impl Iterator<Item = Event> {
    working.duplicates().map(|(node, pod)| {
        let message = format!("Duplicated pod {} found on same node {node}", pod.pod.metadata.name);
        warning("DuplicatePodCreatedOnSameNode", message)
    })
}

/// Why the job fails now; else notes when it would.
fn failure(
    working: &Working<'_>,
    policy: &FailurePolicyType,
    failed: usize,
    turn: &mut Turn,
) -> Option<Failure> {
    let job = working.job();
    if failed > 0 && *policy == FailurePolicyType::FailFast {
        let message = "failure policy is FailurePolicyTypeFailFast and failed pod is found".to_owned();
        return Some(Failure { reason: "failed pod is found", message });
    }
    let deadline = job.spec.completion_policy.active_deadline_seconds.filter(|_| !stays(job))?;
    let start = turn.status.start_time.as_ref().and_then(Time::timestamp)?;
    let due = after(start, deadline);
    if due > working.now {
        turn.again = Some(due);
        return None;
    }
    let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
    let message = format!("Job {namespace}/{name} was active longer than specified deadline");
    Some(Failure { reason: "DeadlineExceeded", message })
}

/// Pods that still run are deleted, and count as failed.
fn fail(working: &Working<'_>, Failure { reason, message }: Failure, turn: &mut Turn) {
    let status = &mut turn.status;
    let active = status.active.unwrap_or(0);
    status.failed = Some(status.failed.unwrap_or(0).saturating_add(active));
    status.active = Some(0);
    "failed".clone_into(&mut status.phase);
    let counts = counts(status);
    finish(working, ("Failed", message.clone()), turn);
    turn.events.push(warning(reason, format!("{message}: {counts}")));
}

fn complete(working: &Working<'_>, turn: &mut Turn) {
    let metadata = &working.job().metadata;
    // What still runs, on a Node that has left, is deleted now.
    turn.status.active = Some(0);
    "completed".clone_into(&mut turn.status.phase);
    let counts = counts(&turn.status);
    finish(working, ("Complete", format!("Job completed, {counts}")), turn);
    let message = format!("Job {}/{} is completed, {counts}", metadata.namespace, metadata.name);
    turn.events.push(normal("JobComplete", message));
    turn.goes_on = false;
}

/// Notes what the job came to, and when.
fn finish(working: &Working<'_>, (kind, message): (&str, String), turn: &mut Turn) {
    let now: Time = working.now.into();
    turn.status.conditions.push(JobCondition {
        kind: kind.to_owned(),
        status: ConditionStatus::True,
        reason: kind.to_owned(),
        message,
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    });
    turn.status.completion_time = Some(now);
    let ttl = working.job().spec.completion_policy.ttl_seconds_after_finished;
    turn.again = ttl.filter(|_| !stays(working.job())).map(|ttl| after(working.now, ttl.into()));
}

fn counts(status: &Status) -> String {
    format!("{} pods succeeded, {} pods failed", status.succeeded.unwrap_or(0), status.failed.unwrap_or(0))
}
