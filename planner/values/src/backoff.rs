//! Pauses that grow while something continues to fail.

use std::time::Duration;

/// The first pause, doubled so many times, up to the longest.
pub fn doubled((first, longest): (Duration, Duration), times: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_doubled_up_to_the_longest_whatever_comes() {
        let pauses = (Duration::from_secs(1), Duration::from_secs(60));
        let seconds = [0, 1, 5, 6, 31, 32, 33, u32::MAX].map(|times| doubled(pauses, times).as_secs());
        assert_eq!(seconds, [1, 2, 32, 60, 60, 60, 60, 60]);
    }
}
