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

/// Calls that seem to be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// The last that was heard before.
    heard: Timestamp,
    since: Timestamp,
}

impl Observation {
    /// When a call came last, or since when one is listened for.
    fn heard(&self) -> Timestamp {
        self.last_review.map_or(self.since, |review| review.max(self.since))
    }

    /// Whether calls seem to be missing: none came for the whole window, and a Pod was created well after the
    /// last one. Half the window lies between them, since replicas tell each other of their calls late, and
    /// clocks differ. However long ago the Pod was created.
    pub fn seems_silent(&self) -> bool {
        let heard = self.heard();
        self.now.duration_since(heard) >= self.window
            && self.newest_pod.is_some_and(|pod| pod.duration_since(heard) >= self.window / 2)
    }

    /// The suspicion after `before`, which lasts until a call is heard.
    pub fn suspicion(&self, before: Option<Suspicion>) -> Option<Suspicion> {
        let heard = self.heard();
        let lasting = before.filter(|before| before.heard == heard);
        lasting.or_else(|| self.seems_silent().then_some(Suspicion { heard, since: self.now }))
    }

    /// Whether calls are missing: other replicas, which look each tenth of a window and tell each fourth, would have told
    /// of theirs since the suspicion began.
    pub fn is_silent(&self, suspicion: Option<Suspicion>) -> bool {
        let proven = |suspicion: Suspicion| self.now.duration_since(suspicion.since) >= self.window / 2;
        self.seems_silent() && suspicion.is_some_and(proven)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn seen(now: i64, last_review: Option<i64>, newest_pod: Option<i64>) -> Observation {
        let window = SignedDuration::from_mins(10);
        let (last_review, newest_pod) = (last_review.map(at), newest_pod.map(at));
        Observation { now: at(now), since: at(0), last_review, newest_pod, window }
    }

    fn silent(now: i64, last_review: Option<i64>, newest_pod: Option<i64>) -> bool {
        seen(now, last_review, newest_pod).seems_silent()
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
        let first = seen(30, Some(10), Some(30));
        let suspicion = first.suspicion(None);
        assert!(suspicion.is_some() && !first.is_silent(suspicion));
        let later = seen(35, Some(10), Some(35));
        assert_eq!(later.suspicion(suspicion), suspicion);
        assert!(later.is_silent(suspicion));
    }

    #[test]
    fn a_suspicion_ends_with_a_call_however_late_that_is_told() {
        let suspicion = seen(30, Some(10), Some(30)).suspicion(None);
        assert_eq!(seen(31, Some(29), Some(30)).suspicion(suspicion), None);
        // Meanwhile nobody was asked: another one begins.
        let again = seen(45, Some(29), Some(45));
        let other = again.suspicion(suspicion);
        assert!(other.is_some() && other != suspicion && !again.is_silent(other));
    }

    #[test]
    fn a_suspicion_outlasts_the_pods_that_gave_rise_to_it() {
        let suspicion = seen(30, Some(10), Some(30)).suspicion(None);
        let without = seen(36, Some(10), None);
        assert_eq!(without.suspicion(suspicion), suspicion);
        assert!(!without.is_silent(suspicion));
        assert!(seen(37, Some(10), Some(37)).is_silent(suspicion));
    }

    #[test]
    fn silence_lasts_until_a_call_comes() {
        assert!(silent(600, None, Some(6)));
        assert!(!silent(600, Some(600), Some(6)));
    }
}
