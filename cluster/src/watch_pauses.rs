//! How long a watch that fails pauses before it is tried again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;
use values::backoff::doubled;

/// The longest first pause, doubled with each failure, up to the longest of all.
const LONGEST: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(3));
/// A failure so long after the one before is a first one again.
const AGAIN: Duration = Duration::from_secs(30);

/// Short pauses: what changes meanwhile is not known (docs/behaviour/server.md#outages-of-the-api-server).
#[derive(Debug, Default)]
pub struct ShortPauses {
    failures: u32,
    last: Option<Instant>,
}

impl Iterator for ShortPauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.last.replace(Instant::now()).is_some_and(|last| last.elapsed() > AGAIN) {
            self.failures = 0;
        }
        let longest = doubled(LONGEST, self.failures);
        self.failures = self.failures.saturating_add(1);
        // All watches of a process fail at the same moment.
        let percent = 50 + (RandomState::new().hash_one(()) % 51) as u32;
        Some(longest * percent / 100)
    }
}

impl Backoff for ShortPauses {
    /// Every list is announced before the API server answers to it: that says nothing, and time alone does.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_three_seconds_and_begin_anew_after_a_while() {
        let mut pauses = ShortPauses::default();
        for _ in 0..2 {
            for longest in [500, 1000, 2000, 3000, 3000, 3000] {
                let (pause, longest) = (pauses.next().unwrap(), Duration::from_millis(longest));
                assert!((longest / 2..=longest).contains(&pause), "{pause:?} of {longest:?}");
                advance(pause).await;
                pauses.reset();
            }
            advance(AGAIN).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_fail_together_are_not_tried_again_together() {
        let pauses: Vec<_> = (0..50).filter_map(|_| ShortPauses::default().next()).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
    }
}
