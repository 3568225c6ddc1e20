//! What is due in the Pods of a job: how far each is, and to which containers are added now
//! (docs/behaviour/restarts.md#how-pods-are-chosen).

use std::sync::Arc;

use api::kinds::ephemeraljob::EphemeralJob;

use super::state::{State, Template};
use pod::observed::ObservedPod;
use values::selector::Selector;

/// How many Pods are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) matched: usize,
    pub(super) running: usize,
    pub(super) succeeded: usize,
    pub(super) waiting: usize,
    pub(super) failed: usize,
}

/// The Pods of a job.
#[derive(Debug, Default)]
pub(super) struct Targets<'a> {
    pub(super) counts: Counts,
    /// Those to which nothing was added yet, the oldest first.
    untouched: Vec<&'a Arc<ObservedPod>>,
    under_way: usize,
}

/// A Pod to which containers are to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct Injection {
    /// The Pod.
    pub pod: Arc<ObservedPod>,
    /// The strategic merge patch of its `ephemeralcontainers`.
    pub patch: String,
}

/// Whether the job is for Pods like this one. An empty selector is for all; one that can't be used is for none.
pub(super) fn selector(job: &EphemeralJob) -> Option<Selector> {
    Selector::compile(&job.spec.selector).ok()
}

impl<'a> Targets<'a> {
    /// Finds the job's Pods among those of its namespace.
    pub(super) fn of(job: &EphemeralJob, template: &Template, pods: &'a [Arc<ObservedPod>]) -> Self {
        let Some(selector) = selector(job) else { return Self::default() };
        let selected = pods.iter().filter(|pod| pod.is_active() && selector.matches(&pod.metadata.labels));
        let states = selected.map(|pod| (pod, template.state(pod)));
        let mut found: Vec<_> = states.filter(|(_, state)| *state != State::Foreign).collect();
        found.sort_by_key(|(pod, _)| (pod.metadata.creation_timestamp, &pod.metadata.name));
        if let Some(replicas) = job.spec.replicas {
            found.truncate(usize::try_from(replicas).unwrap_or_default());
        }
        let count = |wanted: State| found.iter().filter(|(_, state)| *state == wanted).count();
        let counts = Counts {
            matched: found.len(),
            running: count(State::Running),
            succeeded: count(State::Succeeded),
            waiting: count(State::Waiting),
            failed: count(State::Failed),
        };
        let under_way = found.iter().filter(|(_, state)| state.is_under_way()).count();
        let untouched = found.into_iter().filter(|(_, state)| *state == State::Untouched).map(|(pod, _)| pod);
        Self { counts, untouched: untouched.collect(), under_way }
    }

    /// The Pods whose turn it is. Those where the job is in progress take places until they have ended.
    pub(super) fn next(&self, job: &EphemeralJob, template: &Template) -> Vec<Injection> {
        let parallelism = usize::try_from(job.spec.parallelism.unwrap_or(1)).unwrap_or_default();
        let next = self.untouched.iter().take(parallelism.saturating_sub(self.under_way));
        next.map(|pod| Injection { pod: Arc::clone(pod), patch: template.patch(pod) }).collect()
    }
}
