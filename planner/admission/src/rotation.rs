//! Rotation of the webhook certificates: from what is stored, served and published to the next step.
//!
//! ```text
//!   no certificates ----Create----> [A]    leaf of A
//!   leaf is due, A is young --SignLeaf--> [A]    new leaf of A
//!   leaf is due, A is old --AddAuthority--> [B, A]  leaf of A   (B's key is stored, A's is gone)
//!       every object publishes B, and API servers had the time to see it --SignLeaf--> [B, A]  leaf of B
//!       the next rotation, or A's expiry, drops A
//! ```
//!
//! The first authority of the bundle is the one that signs. Every replica runs the same steps; the
//! store accepts a write only on the version that was read, so that one replica wins and the others
//! see its work. Invariants, proven by the model in the tests:
//!
//! 1. The stored bundle contains the issuer of every leaf that a replica serves.
//! 2. A replica changes its leaf only once every object publishes the new leaf's issuer.
//! 3. A replica that every API server accepts stays accepted, though each sees the objects only after a
//!    while: the leaf of another authority waits for [`UPTAKE`] behind its publication.
//! 4. Steps come to an end: after a few of them there is nothing left to do.
//!
//! Nothing waits where nobody is served well: without a leaf, with an expired one, or with one whose issuer is
//! in no bundle any more.
//!
//! A publisher must read an object before it reads the store, and write the object only in the
//! version it read. Then an object never returns to an older bundle.

use jiff::{SignedDuration, Timestamp};

#[cfg(test)]
mod model;

const DAY: SignedDuration = SignedDuration::from_hours(24);
const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);

/// How long authorities and leaves are valid.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365 * 10);
/// Renewal before expiry when `CERTS_RENEW_BEFORE` says nothing usable
/// (docs/behaviour/server.md#environment).
pub const DEFAULT_RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 180);
/// A longer time would make a new certificate due at once.
const MAX_RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 365 * 9);
/// Time after which every replica has observed a rotation: far longer than the slowest resync.
const OVERLAP: SignedDuration = DAY;

/// Time from a publication until every API server trusts what it says. They see webhook configurations and
/// definitions by watch, within milliseconds; one whose watch broke lists again after at most 30 s, which the
/// client doubles at random, and a moment for the list. A rotation has months, so that the wait costs nothing.
pub const UPTAKE: SignedDuration = SignedDuration::from_secs(90);

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Renewal this long before expiry.
    pub renew_before: SignedDuration,
    /// API servers trust a bundle this long after its publication: [`UPTAKE`].
    pub uptake: SignedDuration,
}

/// SHA-256 of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// A certificate that signs leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Authority {
    /// Which certificate it is.
    pub id: Fingerprint,
    /// Start of its validity.
    pub not_before: Timestamp,
    /// End of its validity.
    pub not_after: Timestamp,
}

/// A serving certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf {
    /// Which certificate it is.
    pub id: Fingerprint,
    /// The authority of the bundle beside it whose signature it carries.
    pub issuer: Option<Authority>,
    /// Start of its validity.
    pub not_before: Timestamp,
    /// End of its validity.
    pub not_after: Timestamp,
    /// Its key is there, and it is made for the name under which the server is called.
    pub fits: bool,
}

impl Leaf {
    /// The time from which clients refuse it: its own end or that of its issuer.
    pub fn expires(&self) -> Timestamp {
        self.issuer.map_or(self.not_after, |issuer| issuer.not_after.min(self.not_after))
    }

    fn usable(&self, now: Timestamp) -> bool {
        self.fits && self.issuer.is_some() && self.not_before <= now && self.expires() > now
    }
}

/// What a store holds, or what a replica remembers of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stored {
    /// The bundle in its order.
    pub authorities: Vec<Authority>,
    /// The authority key is there and belongs to the first authority.
    pub can_sign: bool,
    /// The serving certificate.
    pub leaf: Option<Leaf>,
}

/// All that one decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The store; `None` where it holds none of our keys.
    pub stored: Option<&'a Stored>,
    /// The last content of the store that this replica saw.
    pub remembered: Option<&'a Stored>,
    /// The leaf that this replica serves.
    pub served: Option<&'a Leaf>,
    /// Authorities of ours in the bundles that webhook entries and conversion stanzas publish: when
    /// the store is lost, another replica may still serve a leaf of theirs.
    pub authorities: &'a [Authority],
    /// Since when every webhook entry and conversion stanza publishes the whole stored bundle, as far as this
    /// replica saw; `None` where one does not.
    pub published: Option<Timestamp>,
}

/// What to do next. `bundle` names the authorities that stay, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Keep,
    /// Nothing, until the bundle is published everywhere.
    AwaitPublication,
    /// Nothing, until every API server trusts what is published.
    AwaitUptake {
        /// When to look again.
        until: Timestamp,
    },
    /// Put back what this replica remembers, with this bundle.
    Restore {
        /// The authorities of the bundle.
        bundle: Vec<Fingerprint>,
    },
    /// Make an authority in front of `bundle`, and a leaf, in one write.
    Create {
        /// What stays behind the new authority.
        bundle: Vec<Fingerprint>,
    },
    /// Make an authority in front of `bundle`; the leaf stays.
    AddAuthority {
        /// What stays behind the new authority.
        bundle: Vec<Fingerprint>,
    },
    /// Make a leaf signed by the first authority; the bundle stays.
    SignLeaf,
    /// Write this bundle; authority key and leaf stay.
    SetBundle {
        /// The authorities of the new bundle.
        bundle: Vec<Fingerprint>,
    },
}

/// Reads `CERTS_RENEW_BEFORE`: `<int><d|m|y>` with months of 30 and years of 365 days. Anything else, and
/// what is not positive, is 180 days (docs/behaviour/server.md#environment). `None` is an unset variable.
pub fn parse_renew_before(text: Option<&str>) -> SignedDuration {
    text.and_then(read_duration).unwrap_or(DEFAULT_RENEW_BEFORE)
}

fn read_duration(text: &str) -> Option<SignedDuration> {
    let (number, days) = [("d", 1), ("m", 30), ("y", 365)]
        .into_iter()
        .find_map(|(suffix, days)| text.strip_suffix(suffix).map(|number| (number, days)))?;
    let number: i32 = number.parse().ok().filter(|number| *number > 0)?;
    DAY.checked_mul(number)?.checked_mul(days)
}

/// The next step of the replica that made this observation.
pub fn next(observation: &Observation<'_>, timing: Timing, now: Timestamp) -> Step {
    let renew_before = timing.renew_before.min(MAX_RENEW_BEFORE);
    let Some(stored) = observation.stored else {
        let usable = |stored: &&Stored| stored.leaf.is_some_and(|leaf| leaf.usable(now));
        return match observation.remembered.filter(usable) {
            Some(memory) => Step::Restore { bundle: recovered(&memory.authorities, observation, now) },
            None => Step::Create { bundle: recovered(&[], observation, now) },
        };
    };
    let first = stored.authorities.first();
    let leaf = stored.leaf.as_ref().filter(|leaf| leaf.usable(now));
    // A new leaf would be due at once if its authority ended within the time of renewal, and of no use if it
    // has not begun: its author has another clock.
    let young = first
        .is_some_and(|first| first.not_before <= now && first.not_after > after(now, YEAR.max(renew_before)));
    let Some(leaf) = leaf else {
        return if stored.can_sign && young {
            Step::SignLeaf
        } else {
            Step::Create { bundle: recovered(&stored.authorities, observation, now) }
        };
    };
    let signed_by_first = leaf.issuer.map(|issuer| issuer.id) == first.map(|first| first.id);
    let due = leaf.expires() <= after(now, renew_before);
    if (due || !signed_by_first) && !(stored.can_sign && young) {
        return Step::AddAuthority { bundle: before_rotation(stored, leaf, observation.served, now) };
    }
    let bundle = retained(&stored.authorities, observation.served, now, |_| true);
    if bundle.iter().ne(stored.authorities.iter().map(|authority| &authority.id)) {
        return Step::SetBundle { bundle };
    }
    match (signed_by_first, due) {
        (true, false) => return Step::Keep,
        (true, true) => return Step::SignLeaf,
        (false, _) => {}
    }
    match observation.published {
        None => Step::AwaitPublication,
        Some(since) => match trusted_from(since, leaf, timing) {
            until if until > now => Step::AwaitUptake { until },
            _ => Step::SignLeaf,
        },
    }
}

/// When a replica that serves `current` may serve the leaf of `candidate`, which is what the store holds and
/// what is `published` since a time (invariants 2 and 3); `None` where that is not known yet. One that serves
/// nothing yet, or nothing that clients accept, has nothing to lose.
pub fn serves_from(
    current: Option<&Leaf>,
    candidate: &Stored,
    published: Option<Timestamp>,
    timing: Timing,
    now: Timestamp,
) -> Option<Timestamp> {
    let new = candidate.leaf.as_ref()?;
    let Some(current) = current.filter(|current| current.id != new.id && current.usable(now)) else {
        return Some(now);
    };
    let since = published?;
    // A bundle without its issuer refuses the current one. The same issuer was trusted all along.
    let refused = current.issuer.is_none_or(|issuer| !candidate.authorities.contains(&issuer));
    if refused || current.issuer == new.issuer {
        return Some(now);
    }
    Some(trusted_from(since, current, timing))
}

/// When API servers trust what is published `since` then; at the latest when they refuse `leaf`.
fn trusted_from(since: Timestamp, leaf: &Leaf, timing: Timing) -> Timestamp {
    after(since, timing.uptake).min(leaf.expires())
}

/// The authorities of a bundle at the start of a rotation. What came before the current authority
/// is removed now, unless a replica may still serve a leaf of it.
fn before_rotation(stored: &Stored, leaf: &Leaf, served: Option<&Leaf>, now: Timestamp) -> Vec<Fingerprint> {
    let first = stored.authorities.first();
    let settled = stored.authorities.iter().all(|authority| after(authority.not_before, OVERLAP) <= now);
    retained(&stored.authorities, served, now, |authority| {
        !settled || Some(authority) == first || Some(*authority) == leaf.issuer
    })
}

/// The authorities of a bundle that is made anew: all that a replica may still serve a leaf of.
fn recovered(authorities: &[Authority], observation: &Observation<'_>, now: Timestamp) -> Vec<Fingerprint> {
    retained(&[authorities, observation.authorities].concat(), observation.served, now, |_| true)
}

/// The unexpired authorities that `keep` wants, and the issuer of the leaf being served.
fn retained(
    authorities: &[Authority],
    served: Option<&Leaf>,
    now: Timestamp,
    keep: impl Fn(&Authority) -> bool,
) -> Vec<Fingerprint> {
    let served = served.and_then(|leaf| leaf.issuer);
    let kept = authorities.iter().filter(|authority| Some(**authority) == served || keep(authority));
    let mut bundle = Vec::with_capacity(authorities.len() + 1);
    for authority in kept.chain(&served).filter(|authority| authority.not_after > now) {
        if !bundle.contains(&authority.id) {
            bundle.push(authority.id);
        }
    }
    bundle
}

fn after(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    pub(super) const TIMING: Timing = timing(DEFAULT_RENEW_BEFORE);

    const fn timing(renew_before: SignedDuration) -> Timing {
        Timing { renew_before, uptake: UPTAKE }
    }

    fn authority(number: u8, ends_in: SignedDuration) -> Authority {
        Authority {
            id: Fingerprint([number; 32]),
            not_before: after(NOW, -YEAR),
            not_after: after(NOW, ends_in),
        }
    }

    fn leaf(number: u8, issuer: Authority, ends_in: SignedDuration) -> Leaf {
        Leaf {
            id: Fingerprint([number; 32]),
            issuer: Some(issuer),
            not_before: after(NOW, -YEAR),
            not_after: after(NOW, ends_in),
            fits: true,
        }
    }

    fn stored(authorities: &[Authority], leaf: Leaf) -> Stored {
        Stored { authorities: authorities.to_vec(), can_sign: true, leaf: Some(leaf) }
    }

    /// The step beside a bundle that has long been published, or is not.
    fn step(stored: &Stored, published: bool, renew_before: SignedDuration) -> Step {
        step_since(stored, published.then(|| after(NOW, -DAY)), renew_before)
    }

    fn step_since(stored: &Stored, published: Option<Timestamp>, renew_before: SignedDuration) -> Step {
        let observation =
            Observation { stored: Some(stored), remembered: None, served: None, authorities: &[], published };
        next(&observation, timing(renew_before), NOW)
    }

    #[test]
    fn renew_before_falls_back_to_180_days() {
        let days = |text| parse_renew_before(Some(text)).as_hours() / 24;
        assert_eq!([days("10d"), days("2m"), days("3y")], [10, 60, 1095]);
        for bad in ["", "2x", "d", "-1d", "0d", "1.5d", "99999999999d", "10"] {
            assert_eq!(days(bad), 180, "{bad}");
        }
        assert_eq!(parse_renew_before(None), DEFAULT_RENEW_BEFORE);
    }

    #[test]
    fn nothing_stored_makes_everything() {
        let observation =
            Observation { stored: None, remembered: None, served: None, authorities: &[], published: None };
        assert_eq!(next(&observation, TIMING, NOW), Step::Create { bundle: vec![] });
    }

    #[test]
    fn deleted_store_is_restored_from_memory() {
        let a = authority(1, YEAR * 9);
        let memory = stored(&[a], leaf(2, a, YEAR * 9));
        let observation = Observation {
            stored: None,
            remembered: Some(&memory),
            served: memory.leaf.as_ref(),
            authorities: &[authority(7, YEAR)],
            published: Some(NOW),
        };
        let bundle = vec![a.id, Fingerprint([7; 32])];
        assert_eq!(next(&observation, TIMING, NOW), Step::Restore { bundle });
    }

    #[test]
    fn scenario_3_leaf_due_in_30_days_is_renewed_by_the_same_authority() {
        let a = authority(1, YEAR * 2);
        assert_eq!(step(&stored(&[a], leaf(2, a, DAY * 30)), true, DEFAULT_RENEW_BEFORE), Step::SignLeaf);
    }

    #[test]
    fn scenario_4_a_shorter_time_of_renewal_waits() {
        let a = authority(1, YEAR * 2);
        let stored = stored(&[a], leaf(2, a, DAY * 30));
        assert_eq!(step(&stored, true, parse_renew_before(Some("10d"))), Step::Keep);
        assert_eq!(step(&stored, true, parse_renew_before(Some("2x"))), Step::SignLeaf);
    }

    #[test]
    fn old_authority_gets_a_successor_before_the_leaf_changes() {
        let (a, b) = (authority(1, DAY * 300), authority(3, YEAR * 10));
        let before = stored(&[a], leaf(2, a, DAY * 30));
        assert_eq!(step(&before, true, DEFAULT_RENEW_BEFORE), Step::AddAuthority { bundle: vec![a.id] });
        let during = stored(&[b, a], leaf(2, a, DAY * 30));
        assert_eq!(step(&during, false, DEFAULT_RENEW_BEFORE), Step::AwaitPublication);
        assert_eq!(step(&during, true, DEFAULT_RENEW_BEFORE), Step::SignLeaf);
        let done = stored(&[b, a], leaf(4, b, YEAR * 10));
        assert_eq!(step(&done, true, DEFAULT_RENEW_BEFORE), Step::Keep);
    }

    #[test]
    fn previous_authority_leaves_at_its_expiry_or_at_the_next_rotation() {
        let (a, b) = (authority(1, -DAY), authority(3, YEAR * 8));
        assert_eq!(
            step(&stored(&[b, a], leaf(4, b, YEAR * 8)), true, DEFAULT_RENEW_BEFORE),
            Step::SetBundle { bundle: vec![b.id] }
        );
        let (a, b) = (authority(1, DAY * 20), authority(3, DAY * 90));
        assert_eq!(
            step(&stored(&[b, a], leaf(4, b, DAY * 90)), true, DEFAULT_RENEW_BEFORE),
            Step::AddAuthority { bundle: vec![b.id] }
        );
    }

    #[test]
    fn a_second_rotation_within_a_day_keeps_all_authorities() {
        let (a, mut b) = (authority(1, YEAR), authority(3, YEAR * 10));
        b.not_before = after(NOW, -DAY / 2);
        let mut stored = stored(&[b, a], leaf(4, b, DAY));
        stored.can_sign = false;
        assert_eq!(
            step(&stored, true, DEFAULT_RENEW_BEFORE),
            Step::AddAuthority { bundle: vec![b.id, a.id] }
        );
    }

    #[test]
    fn foreign_store_content_gets_the_issuer_of_what_is_served() {
        let (old, new) = (authority(1, YEAR * 3), authority(3, YEAR * 5));
        let stored = stored(&[new], leaf(4, new, YEAR * 5));
        let served = leaf(2, old, YEAR * 3);
        let observation = Observation {
            stored: Some(&stored),
            remembered: None,
            served: Some(&served),
            authorities: &[],
            published: None,
        };
        let step = next(&observation, TIMING, NOW);
        assert_eq!(step, Step::SetBundle { bundle: vec![new.id, old.id] });
    }

    #[test]
    fn a_leaf_for_another_name_or_without_key_is_replaced() {
        let a = authority(1, YEAR * 9);
        let mut stored = stored(&[a], leaf(2, a, YEAR * 9));
        stored.leaf = stored.leaf.map(|leaf| Leaf { fits: false, ..leaf });
        assert_eq!(step(&stored, true, DEFAULT_RENEW_BEFORE), Step::SignLeaf);
        stored.can_sign = false;
        assert_eq!(step(&stored, true, DEFAULT_RENEW_BEFORE), Step::Create { bundle: vec![a.id] });
    }

    #[test]
    fn replicas_with_different_clocks_agree_in_the_end() {
        for skew in
            [SignedDuration::from_mins(8), SignedDuration::from_hours(8), -SignedDuration::from_hours(8)]
        {
            let clocks = [NOW, after(NOW, skew)];
            for first in 0..2 {
                let (mut kept, mut fresh) = (0, 100);
                let mut stored: Option<Stored> = None;
                let mut known = Vec::new();
                for turn in 0..10 {
                    let now = clocks[(first + turn) % 2];
                    let observation = Observation {
                        stored: stored.as_ref(),
                        remembered: None,
                        served: None,
                        authorities: &[],
                        published: Some(after(NOW, -DAY)),
                    };
                    let step = next(&observation, TIMING, now);
                    kept = if step == Step::Keep { kept + 1 } else { 0 };
                    let after = apply(&step, stored.as_ref(), &known, fresh, now);
                    known.extend(&after.authorities);
                    stored = Some(after);
                    fresh += 2;
                }
                assert!(kept >= 6, "clocks {skew} apart: {stored:?}");
            }
        }
    }

    #[test]
    fn the_leaf_of_a_new_authority_waits_until_api_servers_know_it() {
        let (a, b) = (authority(1, DAY * 300), authority(3, YEAR * 10));
        let during = stored(&[b, a], leaf(2, a, DAY * 30));
        let since = |ago: SignedDuration| step_since(&during, Some(after(NOW, -ago)), DEFAULT_RENEW_BEFORE);
        assert_eq!(since(SignedDuration::ZERO), Step::AwaitUptake { until: after(NOW, UPTAKE) });
        assert_eq!(
            since(UPTAKE - SignedDuration::from_secs(1)),
            Step::AwaitUptake { until: after(NOW, SignedDuration::from_secs(1)) }
        );
        assert_eq!(since(UPTAKE), Step::SignLeaf);
        // The end of what is served does not wait.
        let brief = SignedDuration::from_secs(5);
        let ending = stored(&[b, a], leaf(2, a, brief));
        let step = |stored: &Stored| step_since(stored, Some(NOW), DEFAULT_RENEW_BEFORE);
        assert_eq!(step(&ending), Step::AwaitUptake { until: after(NOW, brief) });
        assert_eq!(step(&stored(&[b, a], leaf(2, a, -brief))), Step::SignLeaf);
        // Nor does a leaf of the authority that is trusted already.
        assert_eq!(step(&stored(&[b], leaf(2, b, DAY))), Step::SignLeaf);
    }

    #[test]
    fn another_leaf_is_served_once_trusted_or_when_nothing_is_lost() {
        let (a, b) = (authority(1, YEAR), authority(3, YEAR));
        let current = leaf(2, a, YEAR);
        let (both, alone) = (stored(&[b, a], leaf(4, b, YEAR)), stored(&[b], leaf(4, b, YEAR)));
        let from = |current: Option<&Leaf>, candidate: &Stored, published| {
            serves_from(current, candidate, published, TIMING, NOW)
        };
        assert_eq!(from(Some(&current), &both, None), None);
        assert_eq!(from(Some(&current), &both, Some(NOW)), Some(after(NOW, UPTAKE)));
        let expired = leaf(2, a, -DAY);
        let same = stored(&[a], leaf(4, a, YEAR));
        for (current, candidate, published) in [
            (None, &both, None),
            (Some(&expired), &both, None),
            (both.leaf.as_ref(), &both, None),
            // Its issuer is trusted no more, or as before.
            (Some(&current), &alone, Some(NOW)),
            (Some(&current), &same, Some(NOW)),
        ] {
            assert_eq!(from(current, candidate, published), Some(NOW), "{current:?}");
        }
        assert_eq!(from(Some(&current), &alone, None), None, "somebody else has yet to publish");
    }

    /// What carrying out `step` leaves in the store.
    pub(super) fn apply(
        step: &Step,
        stored: Option<&Stored>,
        known: &[Authority],
        fresh: u8,
        now: Timestamp,
    ) -> Stored {
        let pick = |bundle: &[Fingerprint]| -> Vec<Authority> {
            bundle
                .iter()
                .filter_map(|id| known.iter().find(|authority| authority.id == *id))
                .copied()
                .collect()
        };
        let made =
            Authority { id: Fingerprint([fresh; 32]), not_before: now, not_after: after(now, LIFETIME) };
        let sign = |issuer: Authority| Leaf {
            id: Fingerprint([fresh + 1; 32]),
            issuer: Some(issuer),
            not_before: issuer.not_before,
            not_after: after(now, LIFETIME),
            fits: true,
        };
        let with_new = |bundle: &[Fingerprint]| [vec![made], pick(bundle)].concat();
        let leaf = stored.and_then(|stored| stored.leaf);
        let can_sign = stored.is_some_and(|stored| stored.can_sign);
        let old = stored.map(|stored| stored.authorities.clone()).unwrap_or_default();
        match step {
            Step::Create { bundle } => {
                Stored { authorities: with_new(bundle), can_sign: true, leaf: Some(sign(made)) }
            }
            Step::AddAuthority { bundle } => Stored { authorities: with_new(bundle), can_sign: true, leaf },
            Step::SignLeaf => Stored { leaf: old.first().copied().map(sign), authorities: old, can_sign },
            Step::SetBundle { bundle } | Step::Restore { bundle } => {
                Stored { authorities: pick(bundle), can_sign, leaf }
            }
            Step::Keep | Step::AwaitPublication | Step::AwaitUptake { .. } => {
                Stored { authorities: old, can_sign, leaf }
            }
        }
    }

    proptest! {
        /// Invariant 3, and the bundle holds the issuer of the leaf after every step.
        #[test]
        fn steps_come_to_an_end(
            ends in proptest::collection::vec(-400_i32..4000, 0..4),
            leaf_ends in -400_i32..4000,
            issuer in 0_usize..5,
            can_sign: bool,
            fits: bool,
            renew_before_days in 1_i32..8000,
        ) {
            let authorities: Vec<Authority> =
                ends.iter().zip(10..).map(|(days, number)| authority(number, DAY * *days)).collect();
            let issuer = authorities.get(issuer).copied();
            let leaf = Leaf { issuer, fits, ..leaf(9, authority(99, YEAR), DAY * leaf_ends) };
            let mut known = authorities.clone();
            let mut stored = Stored { authorities, can_sign, leaf: Some(leaf) };
            let mut fresh = 100;
            for _ in 0..4 {
                let step = step(&stored, true, DAY * renew_before_days);
                if step == Step::Keep {
                    break;
                }
                stored = apply(&step, Some(&stored), &known, fresh, NOW);
                known.extend(&stored.authorities);
                fresh += 2;
                let leaf = stored.leaf.filter(|leaf| leaf.usable(NOW));
                prop_assert!(leaf.is_none_or(|leaf| stored.authorities.iter().any(|a| Some(*a) == leaf.issuer)));
            }
            prop_assert_eq!(step(&stored, true, DAY * renew_before_days), Step::Keep);
        }
    }
}
