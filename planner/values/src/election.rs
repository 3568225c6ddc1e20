//! Who leads: the holder of a Lease, as Kubernetes' own components settle it
//! (docs/behaviour/server.md#leader-election).
//!
//! Clocks of different machines are never compared. A Lease counts as abandoned when it was not renewed for
//! its duration by the clock of the one who watches it, and a leader counts from before its last renewal was
//! sent, by its own. Each write names the state that was read, so of two who take over one succeeds.

use std::time::Duration;

use serde::Deserialize;

/// A Lease as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lease {
    /// What identifies its state.
    pub metadata: Metadata,
    /// Who holds it since when.
    pub spec: Spec,
}

/// `metadata` of a Lease, the part that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The state that a write names.
    pub resource_version: String,
}

/// `spec` of a Lease. Times are only compared for changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Who leads; empty where somebody gave the Lease up.
    pub holder_identity: Option<String>,
    /// How long the Lease holds without being renewed.
    pub lease_duration_seconds: Option<u32>,
    /// When the holder took it.
    pub acquire_time: Option<String>,
    /// When the holder renewed it.
    pub renew_time: Option<String>,
    /// How often it changed hands.
    pub lease_transitions: Option<u32>,
}

/// What to do about the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is ours: renew it.
    Renew,
    /// Nobody has it, or its holder is gone: take it.
    TakeOver,
    /// Somebody else leads.
    Wait,
}

/// What one candidate has observed of the Lease.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The last change that was observed, and when, by the candidate's own clock.
    observed: Option<(Spec, Duration)>,
}

impl Observation {
    /// Decides about the Lease as it is at `now`, a time by a clock of the candidate that never goes back.
    /// `duration` holds where the Lease does not say how long it holds.
    pub fn decide(&mut self, lease: &Lease, identity: &str, duration: Duration, now: Duration) -> Step {
        let spec = &lease.spec;
        let since = match &self.observed {
            Some((observed, since)) if observed == spec => *since,
            _ => now,
        };
        self.observed = Some((spec.clone(), since));
        let duration =
            spec.lease_duration_seconds.map_or(duration, |seconds| Duration::from_secs(seconds.into()));
        match spec.holder_identity.as_deref() {
            Some(holder) if holder == identity => Step::Renew,
            None | Some("") => Step::TakeOver,
            Some(_) if now.saturating_sub(since) >= duration => Step::TakeOver,
            Some(_) => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn lease(holder: &str, renewed: &str) -> Lease {
        let spec = Spec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(renewed.to_owned()),
            ..Spec::default()
        };
        Lease { spec, ..Lease::default() }
    }

    fn decide(observation: &mut Observation, lease: &Lease, seconds: u64) -> Step {
        observation.decide(lease, "me", DURATION, Duration::from_secs(seconds))
    }

    #[test]
    fn a_lease_that_is_renewed_is_never_taken_whatever_its_clock_says() {
        let mut observation = Observation::default();
        for second in (0..300).step_by(2) {
            let renewed = lease("other", &format!("1970-01-01T00:{:02}:{:02}Z", second / 60, second % 60));
            assert_eq!(decide(&mut observation, &renewed, second), Step::Wait);
        }
    }

    #[test]
    fn an_abandoned_lease_is_taken_when_its_duration_has_passed_here() {
        let mut observation = Observation::default();
        let ahead = lease("other", "2999-01-01T00:00:00Z");
        for second in 100..115 {
            assert_eq!(decide(&mut observation, &ahead, second), Step::Wait);
        }
        assert_eq!(decide(&mut observation, &ahead, 115), Step::TakeOver);
    }

    #[test]
    fn a_lease_that_was_given_up_is_taken_at_once() {
        assert_eq!(decide(&mut Observation::default(), &lease("", "x"), 0), Step::TakeOver);
        assert_eq!(decide(&mut Observation::default(), &Lease::default(), 0), Step::TakeOver);
    }

    #[test]
    fn our_own_lease_is_renewed_even_when_it_is_old() {
        let mut observation = Observation::default();
        assert_eq!(decide(&mut observation, &lease("me", "x"), 0), Step::Renew);
        assert_eq!(decide(&mut observation, &lease("me", "x"), 100), Step::Renew);
    }

    /// Two candidates, each with a leader's deadline of ten seconds and a clock of its own: whatever calls
    /// fail, and even if one cannot reach the API server, never do both lead.
    #[test]
    fn two_never_lead_at_once() {
        use proptest::prelude::*;
        let step = (0usize..2, 0u64..4, any::<bool>(), any::<bool>());
        proptest!(|(steps in proptest::collection::vec(step, 1..200), offsets in any::<[u16; 2]>())| {
            let mut stored = Lease::default();
            let mut observations = [Observation::default(), Observation::default()];
            let mut until = [None::<u64>, None];
            let mut now = 0;
            for (who, pause, fails, is_lost) in steps {
                now += pause;
                for until in &mut until {
                    *until = until.filter(|until| now < *until);
                }
                if fails {
                    continue;
                }
                let local = Duration::from_secs(now + u64::from(offsets[who]));
                let name = ["a", "b"][who];
                match observations[who].decide(&stored, name, DURATION, local) {
                    Step::Wait => until[who] = None,
                    Step::Renew | Step::TakeOver => {
                        stored = lease(name, &format!("{local:?}"));
                        if !is_lost {
                            until[who] = Some(now + 10);
                        }
                    }
                }
                prop_assert!(until[0].is_none() || until[1].is_none(), "both lead at {now}");
            }
        });
    }
}
