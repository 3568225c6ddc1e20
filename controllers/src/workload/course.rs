//! What is remembered of the course of each rollout, beside the objects: how long to rest, and since when
//! it stands still. Losing it costs an extra plan or an Event that is told twice.

use std::collections::HashMap;
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
/// How long nothing moves before it is told why.
const PATIENCE: Duration = Duration::from_secs(30);

/// The CPU time that work on this thread takes. Where other programs keep the cores busy, the same work takes
/// many times as long by the clock; a rest after that would slow a rollout down and spare nobody anything.
pub(crate) struct CpuTime(Duration);

impl CpuTime {
    /// The work begins.
    pub(crate) fn begin() -> Self {
        Self(Self::of_thread())
    }

    /// The time since then. The work must not have waited: it may go on on another thread.
    pub(crate) fn taken(&self) -> Duration {
        Self::of_thread().saturating_sub(self.0)
    }

    fn of_thread() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

/// The courses of all objects of a kind, by name.
#[derive(Default)]
pub(crate) struct Courses(Mutex<HashMap<Box<str>, Course>>);

#[derive(Default)]
struct Course {
    /// No plan before this time.
    rests: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    /// Why Pods wait, and since when for this reason.
    waits: Option<(Box<str>, Instant)>,
    told: bool,
    /// Something else is wanted since the reconcile began that is under way.
    woken: bool,
}

/// Whether a rollout stands still.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standstill {
    /// It moves, is complete, or what there is to tell was told.
    No,
    /// Not for long: to be looked at again after this time.
    Since(Duration),
    /// For long enough to tell why.
    Tell,
}

impl Courses {
    /// How long the object still has to rest; `None` where a reconcile begins.
    pub(crate) fn rest(&self, name: &str) -> Option<Duration> {
        let mut courses = self.lock();
        let course = courses.get_mut(name)?;
        let rest = course.rests.map(|rests| rests.saturating_duration_since(Instant::now()));
        let rest = rest.filter(|rest| !rest.is_zero());
        course.woken &= rest.is_some();
        rest
    }

    /// Rests, as is fit for a plan that took so long.
    pub(crate) fn plan_took(&self, name: &str, time: Duration) {
        let rest = time.saturating_mul(REST_FACTOR).clamp(REST.0, REST.1);
        let mut courses = self.lock();
        let course = courses.entry(name.into()).or_default();
        course.rests = (!course.woken).then(|| Instant::now() + rest);
    }

    /// Rests after a failure, for longer with each in a row: what changes meanwhile is no reason to try
    /// again sooner, and the queue's own pauses would begin anew with each rest.
    pub(crate) fn failed(&self, name: &str) {
        let mut courses = self.lock();
        let course = courses.entry(name.into()).or_default();
        let pause = doubled(FAILED, course.failures);
        if !course.woken {
            course.failures = course.failures.saturating_add(1);
            course.rests = course.rests.max(Some(Instant::now() + pause));
        }
    }

    /// Nothing failed this time.
    pub(crate) fn succeeded(&self, name: &str) {
        if let Some(course) = self.lock().get_mut(name) {
            course.failures = 0;
        }
    }

    /// Rests no longer, nor after the reconcile that is under way: something else is wanted now.
    pub(crate) fn wake(&self, name: &str) {
        let mut courses = self.lock();
        let course = courses.entry(name.into()).or_default();
        (course.rests, course.failures, course.woken) = (None, 0, true);
    }

    /// Notes why Pods wait while nothing is written to any; `None` where something is, or none waits.
    pub(crate) fn standstill(&self, name: &str, reason: Option<&str>) -> Standstill {
        let mut courses = self.lock();
        let course = courses.entry(name.into()).or_default();
        let Some(reason) = reason else {
            (course.waits, course.told) = (None, false);
            return Standstill::No;
        };
        let now = Instant::now();
        match &course.waits {
            Some((known, since)) if **known == *reason => {
                if course.told {
                    return Standstill::No;
                }
                let remaining = PATIENCE.saturating_sub(now.duration_since(*since));
                if !remaining.is_zero() {
                    return Standstill::Since(remaining);
                }
                course.told = true;
                Standstill::Tell
            }
            _ => {
                (course.waits, course.told) = (Some((reason.into(), now)), false);
                Standstill::Since(PATIENCE)
            }
        }
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Course>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_set_rests_as_its_plan_took() {
        let courses = Courses::default();
        assert_eq!(courses.rest("a"), None);
        courses.plan_took("a", Duration::from_millis(10));
        assert_eq!(courses.rest("a"), Some(Duration::from_millis(200)));
        advance(Duration::from_millis(201)).await;
        assert_eq!(courses.rest("a"), None);
        courses.plan_took("a", Duration::from_secs(10));
        assert_eq!(courses.rest("a"), Some(REST.1));
        courses.forget("a");
        assert_eq!(courses.rest("a"), None);
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
        let courses = Courses::default();
        let rest = || courses.rest("a").unwrap_or_default();
        for expected in [100, 200, 400] {
            courses.failed("a");
            assert_eq!(rest(), Duration::from_millis(expected));
            advance(rest()).await;
        }
        for _ in 0..40 {
            courses.failed("a");
        }
        assert_eq!(rest(), FAILED.1);
        courses.wake("a");
        assert_eq!(courses.rest("a"), None);
        courses.failed("a");
        assert_eq!(rest(), FAILED.0);
        advance(rest()).await;
        courses.succeeded("a");
        courses.failed("a");
        assert_eq!(rest(), FAILED.0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_wanted_during_a_reconcile_does_not_wait_for_the_rest_after_it() {
        let courses = Courses::default();
        assert_eq!(courses.rest("a"), None, "a reconcile begins");
        courses.wake("a");
        courses.plan_took("a", Duration::from_secs(10));
        courses.failed("a");
        assert_eq!(courses.rest("a"), None, "the next one begins");
        courses.plan_took("a", Duration::from_secs(10));
        assert_eq!(courses.rest("a"), Some(REST.1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_standstill_is_told_once_for_each_reason() {
        let courses = Courses::default();
        assert_eq!(courses.standstill("a", Some("paused")), Standstill::Since(PATIENCE));
        advance(PATIENCE / 2).await;
        assert_eq!(courses.standstill("a", Some("paused")), Standstill::Since(PATIENCE / 2));
        advance(PATIENCE / 2).await;
        assert_eq!(courses.standstill("a", Some("paused")), Standstill::Tell);
        assert_eq!(courses.standstill("a", Some("paused")), Standstill::No);
        assert_eq!(courses.standstill("a", Some("partition")), Standstill::Since(PATIENCE));
        assert_eq!(courses.standstill("a", None), Standstill::No);
        assert_eq!(courses.standstill("a", Some("partition")), Standstill::Since(PATIENCE));
    }
}
