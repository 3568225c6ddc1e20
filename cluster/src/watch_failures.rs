//! Failures of a watch, reported so that they are noticed only where something is wrong.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};
use values::segment::without_segments;

/// API servers end watches every few minutes, and connections with them. A failure that follows another one
/// within this time is no such end: attempts are at most a minute apart.
const AGAIN: Duration = Duration::from_secs(120);

/// The failures of one watch.
#[derive(Debug, Default)]
pub struct WatchFailures {
    last: Option<Instant>,
}

impl WatchFailures {
    /// The watch delivers.
    pub fn succeeded(&mut self) {
        self.last = None;
    }

    /// The watch failed, which is logged: as a warning where it has failed shortly before, without any success
    /// in between.
    pub fn failed(&mut self, what: &dyn Display, error: &dyn Display) {
        let error = without_segments(&error.to_string());
        if self.repeats() {
            warn!(%what, %error, "a watch fails again and again and is tried again");
        } else {
            debug!(%what, %error, "a watch ended and is tried again");
        }
    }

    fn repeats(&mut self) -> bool {
        let last = self.last.replace(Instant::now());
        last.is_some_and(|last| last.elapsed() < AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn only_a_failure_that_follows_another_one_is_trouble() {
        let mut failures = WatchFailures::default();
        for _ in 0..3 {
            assert!(!failures.repeats(), "API servers end watches in the ordinary way");
            advance(Duration::from_secs(300)).await;
        }
        assert!(!failures.repeats());
        for _ in 0..3 {
            advance(Duration::from_secs(30)).await;
            assert!(failures.repeats());
        }
        failures.succeeded();
        assert!(!failures.repeats(), "it has worked in between");
    }
}
