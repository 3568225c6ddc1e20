//! Who may call the webhooks: API servers, which alone know the segment that precedes every registered
//! path (docs/behaviour/server.md#callers).
//!
//! ```text
//!   [A]        A is published everywhere
//!   [B, A]     a new certificate was signed; both count, A is still published
//!       every replica answers B: B is published
//!       90 s later every API server calls B
//!   [B]
//! ```
//!
//! Nobody but who may write registrations decides what they say. So what is registered counts, whatever it
//! is, and continues counting until every API server has observed that it is gone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use values::segment::Segment;

/// Segments that count at the same time, however often certificates change before one is published.
const MAX_SEGMENTS: usize = 4;

/// A way in which a webhook is registered: the segment in front, and the path.
pub type Call = (Option<Segment>, String);

/// Whom the webhook paths answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    everybody: bool,
    segments: Vec<Segment>,
    plain: BTreeSet<String>,
    registered: BTreeSet<String>,
}

impl Callers {
    /// Anyone who reaches the port.
    pub fn everybody() -> Self {
        Self { everybody: true, ..Self::default() }
    }

    /// Whether a call with this segment, or none, is answered at `path`. The time that this takes reveals nothing
    /// of the segments.
    pub fn admit(&self, segment: Option<Segment>, path: &str) -> bool {
        match segment {
            Some(called) => self.segments.iter().fold(false, |found, known| found | known.equals(called)),
            None => self.everybody || self.plain.contains(path),
        }
    }

    /// Whether API servers may still call `path`.
    pub fn may_call(&self, path: &str) -> bool {
        self.registered.contains(path)
    }

    /// How this very process is called at `path`.
    pub fn way_to(&self, path: &str) -> String {
        self.segments.first().map_or_else(|| path.to_owned(), |segment| segment.before(path))
    }
}

/// The ways in which API servers may call: those that are registered, and those that were a short time ago.
#[derive(Debug, Default)]
pub struct Calls(BTreeMap<Call, Option<Timestamp>>);

impl Calls {
    /// Takes in what is registered `now`. When to look again, to forget what every API server has observed to be gone.
    pub fn see(
        &mut self,
        live: impl IntoIterator<Item = Call>,
        uptake: SignedDuration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        for gone in self.0.values_mut() {
            gone.get_or_insert(now);
        }
        self.0.extend(live.into_iter().map(|call| (call, None)));
        // A clock that was set back begins anew.
        self.0.values_mut().flatten().filter(|gone| **gone > now).for_each(|gone| *gone = now);
        self.0.retain(|_, gone| gone.is_none_or(|gone| after(gone, uptake) > now));
        self.0.values().flatten().min().map(|gone| after(*gone, uptake))
    }

    /// Whom to answer, with the segments of our own store.
    pub fn callers(&self, own: &[Segment], everybody: bool) -> Callers {
        let mut segments = own.to_vec();
        segments.extend(self.0.keys().filter_map(|(segment, _)| *segment));
        let plain = self.0.keys().filter(|(segment, _)| segment.is_none());
        Callers {
            everybody,
            segments,
            plain: plain.map(|(_, path)| path.clone()).collect(),
            registered: self.0.keys().map(|(_, path)| path.clone()).collect(),
        }
    }
}

/// The segments to store: a `fresh` one in front where there is none, or where a new certificate is made
/// (`rotates`); the first alone once it has been published since long enough.
pub fn kept(
    stored: &[Segment],
    fresh: Segment,
    rotates: bool,
    published: Option<Timestamp>,
    uptake: SignedDuration,
    now: Timestamp,
) -> Vec<Segment> {
    if rotates || stored.is_empty() {
        return std::iter::once(fresh).chain(stored.iter().copied()).take(MAX_SEGMENTS).collect();
    }
    let known = published.is_some_and(|since| after(since, uptake) <= now);
    stored.iter().copied().take(if known { 1 } else { MAX_SEGMENTS }).collect()
}

fn after(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPTAKE: SignedDuration = SignedDuration::from_secs(90);
    const A: Segment = Segment::new(0xa);
    const B: Segment = Segment::new(0xb);
    const C: Segment = Segment::new(u128::MAX);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn call(segment: Option<Segment>, path: &str) -> Call {
        (segment, path.to_owned())
    }

    #[test]
    fn only_who_knows_a_segment_is_answered() {
        let mut calls = Calls::default();
        calls.see([call(Some(A), "/a"), call(None, "/b")], UPTAKE, at(0));
        let callers = calls.callers(&[B], false);
        for (segment, path, admitted) in [
            (Some(A), "/a", true),
            (Some(B), "/a", true),
            (Some(C), "/a", false),
            (None, "/a", false),
            // As it is registered.
            (None, "/b", true),
        ] {
            assert_eq!(callers.admit(segment, path), admitted, "{path}");
        }
        assert_eq!(
            [callers.may_call("/a"), callers.may_call("/b"), callers.may_call("/c")],
            [true, true, false]
        );
        assert_eq!(callers.way_to("/x"), B.before("/x"));
        assert!(!Callers::default().admit(None, "/a") && Callers::everybody().admit(None, "/a"));
        assert!(!Callers::everybody().admit(Some(A), "/a") && !Callers::everybody().may_call("/a"));
    }

    #[test]
    fn what_is_gone_counts_until_every_api_server_knows() {
        let mut calls = Calls::default();
        let plain = || [call(None, "/a")];
        assert_eq!(calls.see(plain(), UPTAKE, at(0)), None);
        // However long nobody looked.
        assert_eq!(calls.see([call(Some(A), "/a")], UPTAKE, at(1000)), Some(at(1090)));
        assert_eq!(calls.see([], UPTAKE, at(1089)), Some(at(1090)));
        assert!(calls.callers(&[], false).admit(None, "/a"));
        assert_eq!(calls.see([], UPTAKE, at(1090)), Some(at(1179)));
        let callers = calls.callers(&[], false);
        assert!(!callers.admit(None, "/a") && callers.admit(Some(A), "/a") && callers.may_call("/a"));
        // It is back.
        assert_eq!(calls.see([call(Some(A), "/a")], UPTAKE, at(1100)), None);
        // A clock that is set back makes nothing longer.
        calls.see([], UPTAKE, at(1100));
        assert_eq!(calls.see([], UPTAKE, at(500)), Some(at(590)));
        assert_eq!(calls.see([], UPTAKE, at(590)), None);
        assert_eq!(calls.callers(&[], false), Callers::default());
    }

    #[test]
    fn segments_change_with_the_certificate_and_overlap() {
        let next = |stored: &[Segment], rotates, published: Option<i64>| {
            kept(stored, C, rotates, published.map(at), UPTAKE, at(1000))
        };
        assert_eq!(next(&[], false, None), [C], "a store of an earlier release");
        assert_eq!(next(&[A], true, Some(0)), [C, A]);
        assert_eq!(next(&[B, A], false, None), [B, A]);
        assert_eq!(next(&[B, A], false, Some(911)), [B, A]);
        assert_eq!(next(&[B, A], false, Some(910)), [B]);
        assert_eq!(next(&[A; 9], true, None).len(), MAX_SEGMENTS);
    }
}
