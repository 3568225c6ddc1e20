//! The time that a caller gives for an answer.

use std::future::Future;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, timeout_at};

/// What the API server waits when a registration does not say (docs/behaviour/server.md#http-of-reviews).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest `timeoutSeconds` that Kubernetes admits.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The moment at which an answer must be on its way.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

/// The deadline passed; says during which step.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the time of this review ended while {step}")]
pub struct Slow {
    step: &'static str,
}

impl Deadline {
    /// This long from now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// From the query that the API server appends to its calls, `timeout=10s`, less a margin for the
    /// way back: an explicit answer that comes in time beats a caller's timeout that explains nothing.
    pub fn from_query(query: Option<&str>) -> Self {
        let timeout = query
            .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("timeout=")))
            .and_then(api::duration::parse)
            .filter(|timeout| !timeout.is_zero())
            .unwrap_or(DEFAULT_TIMEOUT)
            .min(LONGEST_TIMEOUT);
        let margin = (timeout / 10).min(Duration::from_millis(500));
        Self::after(timeout - margin)
    }

    /// This deadline, or `time` from now where that is sooner.
    pub fn at_most(self, time: Duration) -> Self {
        self.before(Instant::now() + time)
    }

    /// This deadline, or `moment` where that is sooner.
    pub fn before(self, moment: Instant) -> Self {
        Self(self.0.min(moment))
    }

    /// The moment itself.
    pub fn moment(self) -> Instant {
        self.0
    }

    /// The time left; zero when it is over.
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Awaits `future`, named by `step` ("reading the request"), for the time left.
    ///
    /// # Errors
    /// The time ended first.
    pub async fn within<T>(self, step: &'static str, future: impl Future<Output = T>) -> Result<T, Slow> {
        timeout_at(self.0, future).await.map_err(|_| Slow { step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_callers_timeout_bounds_the_answer() {
        assert_eq!(Deadline::from_query(Some("timeout=2s")).remaining(), Duration::from_millis(1_800));
        assert_eq!(Deadline::from_query(Some("a=b&timeout=30s")).remaining(), Duration::from_millis(29_500));
        assert_eq!(Deadline::from_query(Some("timeout=9h")).remaining(), Duration::from_millis(29_500));
        assert_eq!(Deadline::from_query(None).remaining(), Duration::from_millis(9_500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_step_is_named() {
        let deadline = Deadline::after(Duration::from_secs(1));
        let answer = deadline.within("counting Pods", std::future::pending::<()>()).await;
        assert_eq!(answer.unwrap_err().to_string(), "the time of this review ended while counting Pods");
    }
}
