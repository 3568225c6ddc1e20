//! What the status of a budget has recorded of Pods: the admissions whose effect is not seen yet
//! (docs/behaviour/podunavailablebudget.md#recorded-pods).
//!
//! A Pod with an entry does not count as available, so that whatever else is done to it costs nothing. Entries are by
//! name: one from before the Pod was created speaks of an earlier Pod of that name.

use std::collections::BTreeMap;

use api::kinds::Time;
use api::kinds::podunavailablebudget::{PodUnavailableBudget, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::terms::Operation;

/// How long a deletion or an eviction may take to be seen.
const DISRUPTION: SignedDuration = SignedDuration::from_secs(20);
/// How long an update or a resize may take to be seen.
const UPDATE: SignedDuration = SignedDuration::from_secs(10);

/// The entry of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When the request was admitted.
    pub(crate) since: Timestamp,
    /// How long the entry holds.
    lasts: SignedDuration,
    /// The Pod was to go.
    pub(crate) leaves: bool,
}

impl Entry {
    /// The entry of this Pod that holds longest.
    pub(crate) fn of(status: &Status, pod: &str, created: Option<Timestamp>) -> Option<Self> {
        let time = |entries: &BTreeMap<String, Time>| {
            let time = entries.get(pod)?.timestamp()?;
            Some(time).filter(|since| created.is_none_or(|created| *since >= created))
        };
        let leaves =
            time(&status.disrupted_pods).map(|since| Self { since, lasts: DISRUPTION, leaves: true });
        let changes =
            time(&status.unavailable_pods).map(|since| Self { since, lasts: UPDATE, leaves: false });
        leaves.into_iter().chain(changes).max_by_key(|entry| (entry.end(), entry.leaves))
    }

    /// When it ends.
    pub(crate) fn end(&self) -> Timestamp {
        self.since.saturating_add(self.lasts).unwrap_or(Timestamp::MAX)
    }

    /// Less than half of its time is left: a request that relies on it now may take effect after its end.
    pub(crate) fn is_old(&self, now: Timestamp) -> bool {
        now >= self.since.saturating_add(self.lasts / 2).unwrap_or(Timestamp::MAX)
    }
}

/// Records a Pod in place of what was recorded of it.
pub(crate) fn record(status: &mut Status, pod: &str, operation: Operation, now: Timestamp) {
    forget(status, pod);
    let entries = match operation {
        Operation::Delete | Operation::Evict => &mut status.disrupted_pods,
        Operation::Update | Operation::Resize => &mut status.unavailable_pods,
    };
    entries.insert(pod.to_owned(), now.into());
}

/// Drops what is recorded of a Pod.
pub(crate) fn forget(status: &mut Status, pod: &str) {
    status.disrupted_pods.remove(pod);
    status.unavailable_pods.remove(pod);
}

/// How many Pods are recorded.
pub(crate) fn count(status: &Status) -> usize {
    status.disrupted_pods.len() + status.unavailable_pods.len()
}

/// The merge patch of `/status` that makes it `new`; `None` where it is so. It holds only for the state of the budget
/// that was looked at.
pub(crate) fn patch(budget: &PodUnavailableBudget, new: &Status) -> Option<String> {
    let old = &budget.status;
    if old == new {
        return None;
    }
    // The schema requires the four numbers, which a budget without status lacks.
    let numbers = [
        ("currentAvailable", new.current_available),
        ("desiredAvailable", new.desired_available),
        ("totalReplicas", new.total_replicas),
        ("unavailableAllowed", new.unavailable_allowed),
    ];
    let mut status: Map<String, Value> =
        numbers.into_iter().map(|(name, number)| (name.to_owned(), number.into())).collect();
    if let Some(generation) = new.observed_generation {
        status.insert("observedGeneration".to_owned(), generation.into());
    }
    for (name, old, new) in [
        ("disruptedPods", &old.disrupted_pods, &new.disrupted_pods),
        ("unavailablePods", &old.unavailable_pods, &new.unavailable_pods),
    ] {
        let changes = changes(old, new);
        if !changes.is_empty() {
            status.insert(name.to_owned(), changes.into());
        }
    }
    let metadata = json!({"uid": budget.metadata.uid, "resourceVersion": budget.metadata.resource_version});
    Some(json!({"metadata": metadata, "status": status}).to_string())
}

fn changes(old: &BTreeMap<String, Time>, new: &BTreeMap<String, Time>) -> Map<String, Value> {
    let gone = old.keys().filter(|pod| !new.contains_key(*pod)).map(|pod| (pod.clone(), Value::Null));
    let set = new.iter().filter(|(pod, time)| old.get(*pod) != Some(time));
    set.map(|(pod, time)| (pod.clone(), Value::from(time.0.as_str()))).chain(gone).collect()
}
