//! What is due for a job (docs/behaviour/restarts.md#the-controller-of-ephemeraljobs).

use std::sync::Arc;
use std::time::Duration;

use api::finalizers::EPHEMERAL_CONTAINERS_CLEANUP;
use api::kinds::ephemeraljob::EphemeralJob;
use api::kinds::{ObjectMeta, Time};
use jiff::{SignedDuration, Timestamp};

pub use super::work::Injection;

use super::state::Template;
use super::status;
use super::work::Targets;
use crate::workload::metadata;
use crate::workload::status::merge_patch;
use pod::observed::ObservedPod;
use values::event::{Event, warning};
use values::moment::until;

/// How long a finished job stays that does not say how long.
const LIFETIME: i32 = 1800;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Merge-patch the job, and reconcile again.
    Job(String),
    /// Delete the job.
    Delete,
    /// Nothing, until something changes or, if there is one, this time has passed.
    Wait(Option<Duration>),
    /// See to the status and the Pods.
    Work(Work),
}

/// What to do about the status and the Pods, in this order: the start of a job is recorded before it does anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// The merge patch of the status, where it changes.
    pub status: Option<String>,
    /// Pods to which containers are added.
    pub injections: Vec<Injection>,
    /// When to reconcile again, if nothing changes before.
    pub next: Option<Duration>,
}

/// Whether nothing is to be done in Pods any more: the job is finished, or being deleted.
pub fn is_over(job: &EphemeralJob) -> bool {
    job.status.completion_time.is_some() || job.metadata.deletion_timestamp.is_some()
}

/// The next step. `pods` are the Pods of the job's namespace; they are not read where the job [`is_over`].
pub fn step(job: &EphemeralJob, pods: &[Arc<ObservedPod>], now: Timestamp) -> Step {
    let metadata = &job.metadata;
    let is_marked = metadata.finalizers.iter().any(|known| known == EPHEMERAL_CONTAINERS_CLEANUP);
    let is_deleted = metadata.deletion_timestamp.is_some();
    if is_deleted == is_marked {
        // Kubernetes can't take ephemeral containers away: with the job nothing but the job is deleted.
        let finalizers = metadata::finalizers(metadata, EPHEMERAL_CONTAINERS_CLEANUP, !is_deleted);
        return Step::Job(metadata::patch(metadata, finalizers));
    }
    if is_deleted {
        return Step::Wait(None);
    }
    if let Some(completed) = &job.status.completion_time {
        let lifetime = job.spec.ttl_seconds_after_finished.unwrap_or(LIFETIME);
        let end =
            completed.timestamp().unwrap_or(now).saturating_add(SignedDuration::from_secs(lifetime.into()));
        return match until(end.unwrap_or(Timestamp::MAX), now) {
            None => Step::Delete,
            rest => Step::Wait(rest),
        };
    }
    Step::Work(work(job, pods, now))
}

fn work(job: &EphemeralJob, pods: &[Arc<ObservedPod>], now: Timestamp) -> Work {
    let template = Template::of(job);
    let targets = template.as_ref().map(|template| Targets::of(job, template, pods));
    let status = status::status(job, targets.as_ref().map(|targets| targets.counts), now);
    let goes_on = status.completion_time.is_none() && !job.spec.paused;
    let injections = match (template, targets) {
        (Some(template), Some(targets)) if goes_on => targets.next(job, &template),
        _ => Vec::new(),
    };
    let deadline = status.start_time.as_ref().and_then(|start: &Time| status::deadline(job, start));
    let next =
        deadline.filter(|_| goes_on && status.phase != "Error").and_then(|deadline| until(deadline, now));
    let ObjectMeta { uid, resource_version, .. } = &job.metadata;
    let is_new = status != job.status;
    let status = is_new.then(|| merge_patch((uid, resource_version), &job.status, &status, &[]));
    Work { status, injections, next }
}

/// What to report where a job that is deleted can't go.
pub fn not_removed(error: &str) -> Event {
    warning("RemoveFailed", error.to_owned())
}

/// What to report where containers can't be added to a Pod.
pub fn refused(error: &str) -> Event {
    warning("CreateFailed", error.to_owned())
}
