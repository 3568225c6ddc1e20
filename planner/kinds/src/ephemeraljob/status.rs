//! What the status of a job says (docs/behaviour/restarts.md#the-status-of-an-ephemeraljob).

use api::kinds::Time;
use api::kinds::ephemeraljob::{EphemeralJob, Status};
use api::kinds::shared::{ConditionStatus, JobCondition};
use jiff::{SignedDuration, Timestamp};

use super::work::Counts;

/// The type, the reason and the message of a condition.
type Finding = (&'static str, &'static str, String);

/// The status from now on. `counts` are absent where the template holds nothing that could be added.
pub(super) fn status(job: &EphemeralJob, counts: Option<Counts>, now: Timestamp) -> Status {
    let old = &job.status;
    let start = old.start_time.clone().unwrap_or_else(|| now.into());
    let mut findings: Vec<Finding> = vec![("Initialized", "Initialized", String::new())];
    let mut phase = match counts {
        None => "Error",
        Some(Counts { matched: 0, .. }) => "Waiting",
        Some(counts) if counts.succeeded == counts.matched => "Succeeded",
        Some(counts) if counts.succeeded + counts.failed == counts.matched => "Failed",
        Some(counts) if counts.running > 0 => "Running",
        Some(counts) if counts.waiting == counts.matched => "Waiting",
        Some(_) => "Unknown",
    };
    let counts = counts.unwrap_or_default();
    match phase {
        "Error" => findings.push(("JobError", "Error", "job spec invalid fields.".to_owned())),
        "Succeeded" => {
            findings.push(("JobSucceeded", "JobSucceeded", "job success to run all tasks".to_owned()));
        }
        "Failed" => findings.push(("JobFailed", "JobFailed", "job failed to run all tasks".to_owned())),
        _ if job.spec.paused => phase = "Paused",
        _ if is_late(job, &start, now) => {
            phase = "Failed";
            let message = format!("EphemeralJob {} was active longer than specified deadline", name(job));
            findings.push(("JobFailed", "DeadlineExceeded", message));
        }
        _ => {}
    }
    if counts.matched == 0 && phase != "Error" {
        findings.push(("MatchedEmpty", "MatchEmpty", "job match no pods".to_owned()));
    }
    let is_over = matches!(phase, "Succeeded" | "Failed");
    if counts.failed > 0 && !is_over {
        let message = format!("EphemeralJob {} failed to create ephemeral container", name(job));
        findings.push(("JobFailed", "CreateFailed", message));
    }
    let number = |count: usize| Some(i32::try_from(count).unwrap_or(i32::MAX));
    Status {
        completion_time: is_over.then(|| now.into()),
        conditions: findings.into_iter().map(|finding| condition(old, finding, now)).collect(),
        failed: number(counts.failed),
        matched: number(counts.matched),
        phase: phase.to_owned(),
        running: number(counts.running),
        start_time: Some(start),
        succeeded: number(counts.succeeded),
        waiting: number(counts.waiting),
    }
}

fn name(job: &EphemeralJob) -> String {
    format!("{}/{}", job.metadata.namespace, job.metadata.name)
}

/// When a job that is not finished fails; `None` where it never does. While it is paused its time does not end.
pub(super) fn deadline(job: &EphemeralJob, start: &Time) -> Option<Timestamp> {
    let seconds = job.spec.active_deadline_seconds.filter(|_| !job.spec.paused)?;
    start.timestamp()?.saturating_add(SignedDuration::from_secs(seconds)).ok()
}

fn is_late(job: &EphemeralJob, start: &Time, now: Timestamp) -> bool {
    deadline(job, start).is_some_and(|deadline| now >= deadline)
}

/// The condition as it was where it says the same.
fn condition(old: &Status, (kind, reason, message): Finding, now: Timestamp) -> JobCondition {
    let says_so = |condition: &&JobCondition| {
        condition.kind == kind
            && condition.status == ConditionStatus::True
            && condition.reason == reason
            && condition.message == message
    };
    old.conditions.iter().find(says_so).cloned().unwrap_or_else(|| JobCondition {
        kind: kind.to_owned(),
        status: ConditionStatus::True,
        reason: reason.to_owned(),
        message: message.clone(),
        last_probe_time: Some(now.into()),
        last_transition_time: Some(now.into()),
    })
}
