//! Does the API server reach us at all? Pods are created, the webhook for Pods is registered, and yet no call
//! comes: a firewall, a network policy or a wrong port swallows them, and with failure policy `Ignore` nobody
//! notices that sidecars are missing (docs/behaviour/server.md#silence-of-the-api-server).

use jiff::{SignedDuration, Timestamp};

/// What is known about calls and Pods.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The time.
    pub now: Timestamp,
    /// Since when calls are listened for and Pods are watched.
    pub since: Timestamp,
    /// When a review of a Pod came last, to whichever replica.
    pub last_review: Option<Timestamp>,
    /// When the youngest Pod was created that had to be reviewed.
    pub newest_pod: Option<Timestamp>,
    /// How long nothing may come.
    pub window: SignedDuration,
}

impl Observation {
    /// Whether calls seem to be missing: none came for the whole window, and a Pod was created well after the
    /// last one. Half the window lies between them, since replicas tell each other of their calls late, and
    /// clocks differ. Silence lasts until a call comes, however long ago the Pod was created.
    pub fn is_silent(&self) -> bool {
        let heard = self.last_review.map_or(self.since, |review| review.max(self.since));
        self.now.duration_since(heard) >= self.window
            && self.newest_pod.is_some_and(|pod| pod.duration_since(heard) >= self.window / 2)
    }
}

/// Whether calls are missing that have seemed to be for this long: other replicas tell of theirs late.
pub fn is_proven(suspected: SignedDuration, window: SignedDuration) -> bool {
    suspected >= window / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn silent(now: i64, last_review: Option<i64>, newest_pod: Option<i64>) -> bool {
        let window = SignedDuration::from_mins(10);
        let (last_review, newest_pod) = (last_review.map(at), newest_pod.map(at));
        Observation { now: at(now), since: at(0), last_review, newest_pod, window }.is_silent()
    }

    #[test]
    fn no_call_in_ten_minutes_though_pods_were_created_is_silence() {
        assert!(silent(10, None, Some(6)));
        assert!(silent(30, Some(15), Some(25)));
    }

    #[test]
    fn without_pods_nothing_is_missing() {
        assert!(!silent(60, None, None));
        assert!(!silent(60, Some(10), Some(10)), "that Pod was reviewed");
        assert!(!silent(60, None, Some(-100)), "that Pod is older than we are");
    }

    #[test]
    fn calls_may_be_late_but_not_absent() {
        assert!(!silent(9, None, Some(6)));
        assert!(!silent(20, Some(15), Some(16)), "another replica tells of its calls later");
    }

    #[test]
    fn a_suspicion_is_proven_once_the_others_would_have_told() {
        let window = SignedDuration::from_mins(10);
        // They look each tenth of a window, and tell each fourth.
        assert!(!is_proven(window / 10 + window / 4, window));
        assert!(is_proven(window / 2, window));
    }

    #[test]
    fn silence_lasts_until_a_call_comes() {
        assert!(silent(600, None, Some(6)));
        assert!(!silent(600, Some(600), Some(6)));
    }
}
