//! How long objects rest: after work, after failures, and between two writes of a status. Losing it costs extra work.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use values::backoff::doubled;

/// An object rests this many times as long as its plan kept a core busy: planning takes a twentieth of a core.
const REST_FACTOR: u32 = 20;
/// Shortest and longest rest.
const REST: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));
/// Pause after the first failure, doubled with each further one up to the longest.
const FAILED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// How often a status that only counts is written at most.
const PACE: Duration = Duration::from_secs(3);

/// The CPU time that work on this thread takes. Where other programs keep the cores busy, the same work takes
/// many times as long by the clock; a rest after that would slow a rollout down and spare nobody anything.
pub(crate) struct CpuTime(Duration);

impl CpuTime {
    /// The work begins.
    pub(crate) fn begin() -> Self {
        Self(Self::of_thread())
    }

    /// The time since then. The work must not have waited: it may continue on another thread.
    pub(crate) fn taken(&self) -> Duration {
        Self::of_thread().saturating_sub(self.0)
    }

    fn of_thread() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

/// The rests of all objects of a kind.
pub(crate) struct Limiter<K> {
    known: Mutex<HashMap<K, State>>,
    /// Shortest and longest rest after work.
    rest: (Duration, Duration),
}

#[derive(Default)]
struct State {
    /// No plan before this time.
    rests: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    /// Something else is wanted since the reconcile began that is in progress.
    woken: bool,
    /// When the status was written last.
    written: Option<Instant>,
}

impl<K: Clone + Eq + Hash> Default for Limiter<K> {
    fn default() -> Self {
        Self::resting(REST)
    }
}

impl<K: Clone + Eq + Hash> Limiter<K> {
    /// Objects that rest at least and at most so long after work.
    pub(crate) fn resting(rest: (Duration, Duration)) -> Self {
        Self { known: Mutex::default(), rest }
    }

    /// How long the object still has to rest; `None` where a reconcile begins.
    pub(crate) fn rest(&self, key: &K) -> Option<Duration> {
        let mut known = self.lock();
        let state = known.get_mut(key)?;
        let rest = state.rests.map(|rests| rests.saturating_duration_since(Instant::now()));
        let rest = rest.filter(|rest| !rest.is_zero());
        state.woken &= rest.is_some();
        rest
    }

    /// Rests, as is fit for work that took so long.
    pub(crate) fn worked(&self, key: &K, time: Duration) {
        let rest = time.saturating_mul(REST_FACTOR).clamp(self.rest.0, self.rest.1);
        self.of(key, |state| state.rests = (!state.woken).then(|| Instant::now() + rest));
    }

    /// Takes in whether a reconcile succeeded. After a failure the object rests, for longer with each in a row: what changes
    /// meanwhile is no reason to try again sooner, and the queue's own pauses would begin anew with each rest.
    pub(crate) fn ended(&self, key: &K, succeeded: bool) {
        self.of(key, |state| {
            if succeeded {
                state.failures = 0;
            } else if !state.woken {
                let pause = doubled(FAILED, state.failures);
                state.failures = state.failures.saturating_add(1);
                state.rests = state.rests.max(Some(Instant::now() + pause));
            }
        });
    }

    /// Rests no longer, nor after the reconcile that is in progress: something else is wanted now.
    pub(crate) fn wake(&self, key: &K) {
        self.of(key, |state| (state.rests, state.failures, state.woken) = (None, 0, true));
    }

    /// How long to wait before the status may be written; `None` where it is written now. What is urgent does not wait.
    pub(crate) fn pace(&self, key: &K, is_urgent: bool) -> Option<Duration> {
        self.of(key, |state| {
            let left = state.written.map(|written| PACE.saturating_sub(written.elapsed()));
            let left = left.filter(|left| !left.is_zero() && !is_urgent);
            if left.is_none() {
                state.written = Some(Instant::now());
            }
            left
        })
    }

    /// Forgets an object that is over, or gone.
    pub(crate) fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn of<T>(&self, key: &K, use_it: impl FnOnce(&mut State) -> T) -> T {
        use_it(self.lock().entry(key.clone()).or_default())
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<K, State>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_set_rests_as_its_plan_took() {
        let limiter = Limiter::default();
        assert_eq!(limiter.rest(&"a"), None);
        limiter.worked(&"a", Duration::from_millis(10));
        assert_eq!(limiter.rest(&"a"), Some(Duration::from_millis(200)));
        advance(Duration::from_millis(201)).await;
        assert_eq!(limiter.rest(&"a"), None);
        limiter.worked(&"a", Duration::from_secs(10));
        assert_eq!(limiter.rest(&"a"), Some(REST.1));
        limiter.forget(&"a");
        assert_eq!(limiter.rest(&"a"), None);
    }

    #[test]
    fn time_without_work_costs_nothing() {
        let time = CpuTime::begin();
        std::thread::sleep(Duration::from_millis(100));
        let waited = time.taken();
        assert!(waited < Duration::from_millis(50), "{waited:?}");
        let mut sum = 0_u64;
        while time.taken() < waited + Duration::from_millis(5) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn rests_grow_with_failures_until_something_else_is_wanted() {
        let limiter = Limiter::default();
        let rest = || limiter.rest(&"a").unwrap_or_default();
        for expected in [100, 200, 400] {
            limiter.ended(&"a", false);
            assert_eq!(rest(), Duration::from_millis(expected));
            advance(rest()).await;
        }
        for _ in 0..40 {
            limiter.ended(&"a", false);
        }
        assert_eq!(rest(), FAILED.1);
        limiter.wake(&"a");
        assert_eq!(limiter.rest(&"a"), None);
        limiter.ended(&"a", false);
        assert_eq!(rest(), FAILED.0);
        advance(rest()).await;
        limiter.ended(&"a", true);
        limiter.ended(&"a", false);
        assert_eq!(rest(), FAILED.0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_wanted_during_a_reconcile_does_not_wait_for_the_rest_after_it() {
        let limiter = Limiter::default();
        assert_eq!(limiter.rest(&"a"), None, "a reconcile begins");
        limiter.wake(&"a");
        limiter.worked(&"a", Duration::from_secs(10));
        limiter.ended(&"a", false);
        assert_eq!(limiter.rest(&"a"), None, "the next one begins");
        limiter.worked(&"a", Duration::from_secs(10));
        assert_eq!(limiter.rest(&"a"), Some(REST.1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_is_written_at_most_once_in_three_seconds_unless_it_is_urgent() {
        let limiter = Limiter::default();
        assert_eq!(limiter.pace(&"a", false), None);
        advance(Duration::from_secs(1)).await;
        assert_eq!(limiter.pace(&"a", false), Some(Duration::from_secs(2)));
        assert_eq!(limiter.pace(&"a", true), None);
        advance(PACE).await;
        assert_eq!(limiter.pace(&"a", false), None);
        limiter.forget(&"a");
        assert_eq!(limiter.pace(&"a", false), None);
    }
}
