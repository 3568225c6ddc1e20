//! Which jobs are reconciled when something has changed, and when.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::ephemeraljob::EphemeralJob;

use super::step::is_over;
use super::work::selector;
use pod::observed::ObservedPod;

/// Changes of Pods come in numbers: those of this time are counted, and written, together.
const BURST: Duration = Duration::from_millis(200);

/// Whether the change of a job makes a difference: what its status says is our own word.
pub fn of_job(old: Option<&EphemeralJob>, new: Option<&EphemeralJob>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    old.spec != new.spec
        || old.metadata.uid != new.metadata.uid
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.metadata.finalizers != new.metadata.finalizers
        || old.status.completion_time != new.status.completion_time
}

/// When to reconcile the jobs of a Pod that has changed; `None` where it makes no difference to them.
pub fn of_pod(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> Option<Duration> {
    let (Some(old), Some(new)) = (old, new) else { return Some(BURST) };
    let differs = old.is_active() != new.is_active()
        || old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.spec.ephemeral_containers != new.spec.ephemeral_containers
        || old.status.ephemeral_container_statuses != new.status.ephemeral_container_statuses;
    differs.then_some(BURST)
}

/// The jobs, of those of its namespace, that a Pod in these states concerns.
pub fn jobs_of<'a>(states: &[&ObservedPod], jobs: &'a [Arc<EphemeralJob>]) -> Vec<&'a EphemeralJob> {
    let concerned = jobs.iter().filter(|job| !is_over(job)).filter(|job| {
        let selector = selector(job);
        selector.is_some_and(|selector| states.iter().any(|pod| selector.matches(&pod.metadata.labels)))
    });
    concerned.map(|job| &**job).collect()
}
