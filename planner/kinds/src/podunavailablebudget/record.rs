//! What the status of a budget has recorded of Pods: the admissions whose effect is not observed yet
//! (docs/behaviour/podunavailablebudget.md#recorded-pods).
//!
//! A Pod with an entry does not count as available, so that whatever else is done to it costs nothing. Entries are by
//! name, but a Pod may be created anew under its name while the controller still sees the earlier one. So the fraction
//! of the second of an entry's time encodes the Pod's UID. One from before the Pod was created speaks of an earlier
//! Pod.
//!
//! A controller that is about to update a Pod has its entry encode the trace of earlier updates, too: once the Pod
//! shows another one, the update is observed, and the entry is over.

use std::collections::BTreeMap;

use api::kinds::Time;
use api::kinds::podunavailablebudget::{PodUnavailableBudget, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use values::hash::fnv1_32;

/// How long a deletion or an eviction may take to be observed.
const DISRUPTION: SignedDuration = SignedDuration::from_secs(20);
/// How long an update or a resize may take to be observed.
const UPDATE: SignedDuration = SignedDuration::from_secs(10);
/// The nanoseconds of an entry's time encode the trace, what is above them for the UID.
const TRACES: i32 = 1000;

/// The entry of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When the request was admitted, in whole seconds.
    pub(crate) since: Timestamp,
    /// Which Pod it speaks of; 0 where that is not known.
    tag: i32,
    /// The trace on the Pod before its update ([`super::available::trace`]); 0 where that is not known.
    trace: i32,
    /// How long the entry holds.
    lasts: SignedDuration,
    /// The Pod was to go.
    pub(crate) leaves: bool,
}

impl Entry {
    /// The entry of a Pod of this name and age that holds longest.
    pub(crate) fn of(status: &Status, pod: &str, created: Option<Timestamp>) -> Option<Self> {
        let entry = |entries: &BTreeMap<String, Time>, lasts, leaves| {
            let time = entries.get(pod)?.timestamp()?;
            let since = whole_seconds(time);
            let is_older = created.is_some_and(|created| since < created);
            let (tag, trace) = (time.subsec_nanosecond() / TRACES, time.subsec_nanosecond() % TRACES);
            (!is_older).then_some(Self { since, tag, trace, lasts, leaves })
        };
        let leaves = entry(&status.disrupted_pods, DISRUPTION, true);
        let changes = entry(&status.unavailable_pods, UPDATE, false);
        leaves.into_iter().chain(changes).max_by_key(|entry| (entry.end(), entry.leaves))
    }

    /// Whether it may speak of the Pod with this UID. If not, then of an earlier or a later Pod of that name.
    pub(crate) fn is_of(&self, uid: &str) -> bool {
        self.tag == 0 || self.tag == tag(uid)
    }

    /// The Pod with this UID, which shows this trace, has been updated since: what was admitted has happened.
    pub(crate) fn is_over(&self, uid: &str, trace: i32) -> bool {
        self.trace != 0 && self.trace != trace && self.tag == tag(uid)
    }

    /// When it ends.
    pub(crate) fn end(&self) -> Timestamp {
        self.since.saturating_add(self.lasts).unwrap_or(Timestamp::MAX)
    }

    /// A quarter of its time has passed: a request that relies on it now may take effect after its end, all the more
    /// where clocks differ.
    pub(crate) fn is_old(&self, now: Timestamp) -> bool {
        now >= self.since.saturating_add(self.lasts / 4).unwrap_or(Timestamp::MAX)
    }
}

/// Records a Pod, which is to leave or not, in place of what was recorded of it. `trace` is that before its update, or 0.
pub(crate) fn record(status: &mut Status, pod: &str, uid: &str, leaves: bool, trace: i32, since: Timestamp) {
    forget(status, pod);
    let entries = if leaves { &mut status.disrupted_pods } else { &mut status.unavailable_pods };
    let tagged = Timestamp::new(since.as_second(), tag(uid) * TRACES + trace).unwrap_or(since);
    entries.insert(pod.to_owned(), Time(tagged.to_string()));
}

/// A fraction of a second, in microseconds and never 0, that encodes a UID.
fn tag(uid: &str) -> i32 {
    i32::try_from(fnv1_32(uid.bytes()) % 999_999 + 1).unwrap_or_default()
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
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
/// that was observed.
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
