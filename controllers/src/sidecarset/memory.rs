//! What is remembered of SidecarSets and their Pods beside the objects. Losing it costs a request that is
//! refused once more, or an Event that is recorded twice.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::sidecarset::Status;
use kinds::sidecarset::rollout::Refused;
use pod::observed::ObservedPod;
use tokio::time::Instant;
use values::backoff::doubled;

use crate::workload::budgets::Exhausted;
use crate::workload::store::Change;

/// How long a Pod is left alone after its update was refused: doubled with each refusal, up to the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// How long nothing moves before the reason is reported.
const STANDSTILL: Duration = Duration::from_secs(30);
/// How much is kept of what the API server says, in bytes.
const MESSAGE: usize = 300;

/// The memory of all SidecarSets, by name.
#[derive(Default)]
pub(super) struct Memory(Mutex<HashMap<Box<str>, OfSet>>);

#[derive(Default)]
struct OfSet {
    /// By the UIDs of the Pods.
    refusals: HashMap<Box<str>, Refusal>,
    /// The budgets that had nothing left, by the UIDs of the Pods.
    withheld: HashMap<Box<str>, Exhausted>,
    /// Pods that had older sidecars when the SidecarSet was read, by UID.
    outdated: BTreeSet<Box<str>>,
    /// Pods that had changed when they were to be written to, by UID: whatever changes in them asks for a plan.
    awaited: BTreeSet<Box<str>>,
    /// Why nothing continues.
    waits: Option<Waits>,
    /// The status that is right.
    status: Option<Status>,
}

/// Why Pods wait, and since when for this reason.
struct Waits {
    reason: Box<str>,
    since: Instant,
    is_reported: bool,
}

/// Whether a rollout is stalled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standstill {
    /// It moves, is complete, or its reason was already reported.
    No,
    /// Not for long: to be reconciled again after this time.
    Since(Duration),
    /// For long enough to say why.
    Report,
}

struct Refusal {
    /// The Pod's resource version.
    version: Box<str>,
    times: u32,
    at: Instant,
    message: Box<str>,
}

impl Refusal {
    /// How long the Pod is still left alone: less where it is in another state by now.
    fn remaining(&self, version: &str) -> Duration {
        let pause =
            if *self.version == *version { doubled(PAUSE, self.times.saturating_sub(1)) } else { PAUSE.0 };
        pause.saturating_sub(self.at.elapsed())
    }
}

impl Memory {
    /// Notes that the update of a Pod was refused; true if it is the first time.
    pub(super) fn refused(&self, set: &str, pod: &ObservedPod, message: &str) -> bool {
        self.of(set, |of_set| {
            let times = of_set.refusals.get(&pod.metadata.uid).map_or(0, |refusal| refusal.times);
            let end = message.floor_char_boundary(MESSAGE);
            let refusal = Refusal {
                version: pod.metadata.resource_version.clone(),
                times: times.saturating_add(1),
                at: Instant::now(),
                message: message.get(..end).unwrap_or_default().into(),
            };
            of_set.refusals.insert(pod.metadata.uid.clone(), refusal);
            times == 0
        })
    }

    /// Those of `pods` that are left alone, and the time until the first of them is tried again.
    pub(super) fn refusals(&self, set: &str, pods: &[Arc<ObservedPod>]) -> (Refused, Option<Duration>) {
        self.of(set, |of_set| {
            let (mut held, mut next) = (Refused::new(), None::<Duration>);
            let mut known = std::mem::take(&mut of_set.refusals);
            if known.is_empty() {
                return (held, next);
            }
            // Pods that are gone are forgotten.
            for metadata in pods.iter().map(|pod| &pod.metadata) {
                let Some((uid, refusal)) = known.remove_entry(&metadata.uid) else { continue };
                let remaining = refusal.remaining(&metadata.resource_version);
                if !remaining.is_zero() {
                    held.insert(uid.clone(), refusal.message.clone());
                    next = Some(next.map_or(remaining, |next| next.min(remaining)));
                }
                of_set.refusals.insert(uid, refusal);
            }
            (held, next)
        })
    }

    /// Notes that the budget of a Pod had nothing left.
    pub(super) fn withhold(&self, set: &str, pod: &ObservedPod, budget: Exhausted) {
        self.of(set, |of_set| of_set.withheld.insert(pod.metadata.uid.clone(), budget));
    }

    /// The budget of a Pod that had nothing left.
    pub(super) fn withholds(&self, set: &str, pod: &ObservedPod) -> Option<Exhausted> {
        self.of(set, |of_set| of_set.withheld.get(&pod.metadata.uid).cloned())
    }

    /// Those of `pods` whose budgets still have nothing left, as `holding` says.
    pub(super) fn withheld(
        &self,
        set: &str,
        pods: &[Arc<ObservedPod>],
        holding: impl Fn(&ObservedPod, &Exhausted) -> Option<Exhausted>,
    ) -> Refused {
        // They stay known meanwhile: a Pod that changes now is asked about.
        let known = self.of(set, |of_set| of_set.withheld.clone());
        let hold = |pod: &Arc<ObservedPod>| {
            let (uid, budget) = known.get_key_value(&pod.metadata.uid)?;
            Some((uid.clone(), holding(pod, budget)?))
        };
        let held: HashMap<_, _> = pods.iter().filter_map(hold).collect();
        let refused =
            held.iter().map(|(uid, budget)| (uid.clone(), budget.to_string().into_boxed_str())).collect();
        self.of(set, |of_set| of_set.withheld = held);
        refused
    }

    /// Notes which Pods had older sidecars when the SidecarSet was read.
    pub(super) fn outdated(&self, set: &str, pods: BTreeSet<Box<str>>) {
        self.of(set, |of_set| of_set.outdated = pods);
    }

    /// Whether the SidecarSet was read since all these Pods were observed to have older sidecars. The others are
    /// forgotten.
    pub(super) fn knows_outdated(&self, set: &str, pods: &BTreeSet<Box<str>>) -> bool {
        self.of(set, |of_set| {
            of_set.outdated.retain(|pod| pods.contains(pod));
            of_set.outdated.len() == pods.len()
        })
    }

    /// Tries every Pod again: the SidecarSet says something else.
    pub(super) fn forgive(&self, set: &str) {
        self.of(set, |of_set| of_set.refusals.clear());
    }

    /// Notes that a Pod has changed, which a watch will report.
    pub(super) fn await_change(&self, set: &str, pod: &ObservedPod) {
        self.of(set, |of_set| of_set.awaited.insert(pod.metadata.uid.clone()));
    }

    /// Whether this is the change of a Pod that is awaited.
    pub(super) fn awaits(&self, set: &str, change: &Change<ObservedPod>) -> bool {
        let mut states = change.states();
        self.of(set, |of_set| states.any(|pod| of_set.awaited.contains(&pod.metadata.uid)))
    }

    /// A plan is made on all Pods as they are.
    pub(super) fn await_nothing(&self, set: &str) {
        self.of(set, |of_set| of_set.awaited.clear());
    }

    /// Notes why Pods wait while nothing is written to any; `None` where something is, or none waits.
    pub(super) fn standstill(&self, set: &str, reason: Option<&str>) -> Standstill {
        self.of(set, |of_set| {
            let Some(reason) = reason else {
                of_set.waits = None;
                return Standstill::No;
            };
            let now = Instant::now();
            match of_set.waits.as_mut().filter(|waits| *waits.reason == *reason) {
                Some(Waits { is_reported: true, .. }) => Standstill::No,
                Some(Waits { since, is_reported, .. }) => {
                    let remaining = STANDSTILL.saturating_sub(now.duration_since(*since));
                    *is_reported = remaining.is_zero();
                    if *is_reported { Standstill::Report } else { Standstill::Since(remaining) }
                }
                None => {
                    of_set.waits = Some(Waits { reason: reason.into(), since: now, is_reported: false });
                    Standstill::Since(STANDSTILL)
                }
            }
        })
    }

    /// Notes the status that is right.
    pub(super) fn said(&self, set: &str, status: Status) {
        self.of(set, |of_set| of_set.status = Some(status));
    }

    /// False if somebody else wrote the status.
    pub(super) fn is_our_status(&self, set: &str, status: &Status) -> bool {
        self.of(set, |of_set| of_set.status.as_ref().is_none_or(|said| said == status))
    }

    /// Forgets a SidecarSet that is gone.
    pub(super) fn forget(&self, set: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(set);
    }

    // Held for single operations only, never over an await.
    fn of<T>(&self, set: &str, use_it: impl FnOnce(&mut OfSet) -> T) -> T {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_it(sets.entry(set.into()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn pod(version: u32) -> Arc<ObservedPod> {
        let text = format!(
            r#"{{"metadata":{{"namespace":"n","name":"p","uid":"u","resourceVersion":"{version}"}},"spec":{{}}}}"#
        );
        Arc::new(ObservedPod::read(&text).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_left_alone_for_longer_with_each_refusal() {
        let memory = Memory::default();
        let pods = [pod(1)];
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            let news = memory.refused("s", &pods[0], "no");
            assert_eq!(news, seconds == 5, "only the first is news");
            let pause = Duration::from_secs(seconds);
            assert_eq!(memory.refusals("s", &pods), ([("u".into(), "no".into())].into(), Some(pause)));
            advance(pause).await;
            assert_eq!(memory.refusals("s", &pods), (Refused::new(), None));
        }
        assert_eq!(memory.refusals("other", &pods), (Refused::new(), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_changed_is_tried_soon() {
        let memory = Memory::default();
        for _ in 0..6 {
            memory.refused("s", &pod(1), "no");
        }
        advance(PAUSE.0 / 2).await;
        assert_eq!(memory.refusals("s", &[pod(2)]).1, Some(PAUSE.0 / 2), "not with every change");
        advance(PAUSE.0).await;
        assert_eq!(memory.refusals("s", &[pod(2)]).1, None);
        assert!(memory.refusals("s", &[pod(1)]).1.is_some());
        memory.forgive("s");
        assert_eq!(memory.refusals("s", &[pod(1)]).1, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_gone_is_forgotten() {
        let memory = Memory::default();
        memory.refused("s", &pod(1), &"n\u{f6}".repeat(MESSAGE));
        let (held, _) = memory.refusals("s", &[pod(1)]);
        assert!(held["u"].len() <= MESSAGE && held["u"].len() > MESSAGE - 4);
        memory.refusals("s", &[]);
        assert!(memory.refused("s", &pod(1), "no"), "it would be another one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_standstill_is_reported_once_for_each_reason() {
        let memory = Memory::default();
        assert_eq!(memory.standstill("a", Some("paused")), Standstill::Since(STANDSTILL));
        advance(STANDSTILL / 2).await;
        assert_eq!(memory.standstill("a", Some("paused")), Standstill::Since(STANDSTILL / 2));
        advance(STANDSTILL / 2).await;
        assert_eq!(memory.standstill("a", Some("paused")), Standstill::Report);
        assert_eq!(memory.standstill("a", Some("paused")), Standstill::No);
        assert_eq!(memory.standstill("a", Some("partition")), Standstill::Since(STANDSTILL));
        assert_eq!(memory.standstill("a", None), Standstill::No);
        assert_eq!(memory.standstill("a", Some("partition")), Standstill::Since(STANDSTILL));
    }
}
