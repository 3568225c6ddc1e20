//! When a Pod that failed is replaced, where each Pod has a place of its own: at once the first time, then after pauses
//! that grow while Pods fail at that place.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use values::backoff::doubled;

/// The first pause and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15 * 60));
/// A place where nothing failed for so long starts over.
const MEMORY: SignedDuration = SignedDuration::from_mins(30);

/// The places of one workload at which Pods failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures(BTreeMap<Box<str>, Failure>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    /// The generation of the workload: with another one all starts over.
    generation: Option<i64>,
    /// How many Pods that failed were deleted, less one.
    times: u32,
    /// When the last one was.
    at: Timestamp,
}

impl Failures {
    /// A Pod that failed at this place was deleted.
    pub fn record(&mut self, place: &str, generation: Option<i64>, now: Timestamp) {
        let times = self.known(place, generation, now).map_or(0, |known| known.times.saturating_add(1));
        self.0.retain(|_, failure| now.duration_since(failure.at) <= MEMORY);
        self.0.insert(place.into(), Failure { generation, times, at: now });
    }

    /// When a Pod that has failed at this place may be deleted; `None` where it may now.
    pub fn due(&self, place: &str, generation: Option<i64>, now: Timestamp) -> Option<Timestamp> {
        let known = self.known(place, generation, now)?;
        let pause = SignedDuration::try_from(doubled(PAUSES, known.times)).unwrap_or(MEMORY);
        let due = known.at.checked_add(pause).unwrap_or(now);
        (due > now).then_some(due)
    }

    fn known(&self, place: &str, generation: Option<i64>, now: Timestamp) -> Option<&Failure> {
        let known = self.0.get(place).filter(|known| known.generation == generation);
        known.filter(|known| now.duration_since(known.at) <= MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_at_each_place_and_start_over_with_another_spec_or_after_a_while() {
        let start: Timestamp = "2026-05-01T08:00:00Z".parse().unwrap();
        let after = |seconds| start.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        let mut failures = Failures::default();
        assert_eq!(failures.due("n1", Some(1), start), None);
        failures.record("n1", Some(1), start);
        assert_eq!(failures.due("n1", Some(1), start), Some(after(1)));
        assert_eq!(failures.due("n2", Some(1), start), None);
        assert_eq!(failures.due("n1", Some(2), start), None);
        assert_eq!(failures.due("n1", Some(1), after(1)), None);
        failures.record("n1", Some(1), after(1));
        assert_eq!(failures.due("n1", Some(1), after(2)), Some(after(3)));
        for _ in 0..40 {
            failures.record("n1", Some(1), after(10));
        }
        assert_eq!(failures.due("n1", Some(1), after(10)), Some(after(10 + 15 * 60)));
        assert_eq!(failures.due("n1", Some(1), after(11 + 30 * 60)), None);
        failures.record("n1", Some(1), after(11 + 30 * 60));
        assert_eq!(failures.due("n1", Some(1), after(11 + 30 * 60)), Some(after(12 + 30 * 60)));
    }
}
