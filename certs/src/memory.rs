//! What the publisher remembers, among it how often it repairs what somebody else changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use admission::callers::Calls;
use admission::registration::Choices;
use admission::rotation::Leaf;
use jiff::Timestamp;
use values::segment::Segment;

use crate::material::Material;

/// Two releases side by side may disagree on an object: this long between two repairs of it. The first
/// is immediate.
const REPAIR_PAUSE: Duration = Duration::from_secs(2);

/// What is published: each object says both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edition {
    /// The bundle, base64.
    pub(crate) bundle: String,
    /// The prefix of every path; `None` while what is registered stays.
    pub(crate) segment: Option<Segment>,
}

/// What the task remembers from pass to pass.
#[derive(Default)]
pub(crate) struct PublisherMemory {
    /// What the store held last.
    pub(crate) material: Option<Material>,
    pub(crate) served: Option<Leaf>,
    /// What was published last.
    pub(crate) published: Option<Edition>,
    /// Since when nothing of ours had to be written for it to be published everywhere.
    since: Option<Timestamp>,
    /// When something can be done that has to wait now.
    pub(crate) due: Option<Timestamp>,
    pub(crate) added: Option<Instant>,
    /// Passes in a row that ended with waiting.
    pub(crate) waits: u32,
    /// Since when something is missing that the external issuer has to provide.
    pub(crate) missed_since: Option<Timestamp>,
    /// When an Event said last what is missing.
    pub(crate) missing_reported: Option<Timestamp>,
    /// The users' choices in effect; `None` before the first pass.
    pub(crate) choices: Option<Choices>,
    /// Why their present text is not in effect.
    pub(crate) refusal: Option<String>,
    /// How API servers may call.
    pub(crate) calls: Calls,
    /// Per object.
    written: BTreeMap<String, Written>,
}

/// What an object was last written for. With a new edition a write is no repair.
struct Written {
    edition: Edition,
    repaired: Option<Instant>,
}

impl PublisherMemory {
    /// How long `object` has to wait for its repair.
    pub(crate) fn pause(&self, object: &str, edition: &Edition) -> Option<Duration> {
        let written = self.written.get(object).filter(|written| written.edition == *edition)?;
        REPAIR_PAUSE.checked_sub(written.repaired?.elapsed())
    }

    /// Notes that `edition` is published everywhere `now`; since when it has been.
    pub(crate) fn published_since(&mut self, edition: &Edition, now: Timestamp) -> Timestamp {
        if self.published.as_ref() != Some(edition) {
            self.published = Some(edition.clone());
            self.since = None;
        }
        // A clock that was set back begins anew: it must not make the wait longer.
        let since = self.since.filter(|since| *since <= now).unwrap_or(now);
        self.since = Some(since);
        since
    }

    /// Notes that `object` was written for `edition`: its readers have yet to see that.
    pub(crate) fn remember(&mut self, object: &str, edition: &Edition) {
        self.since = None;
        let known = self.written.get(object).is_some_and(|written| written.edition == *edition);
        let written = Written { edition: edition.clone(), repaired: known.then(Instant::now) };
        self.written.insert(object.to_owned(), written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edition(bundle: &str) -> Edition {
        Edition { bundle: bundle.to_owned(), segment: None }
    }

    #[test]
    fn a_publication_begins_anew_with_each_edition_and_each_repair() {
        let (old, new) =
            (&edition("bundle"), &Edition { segment: Some(Segment::new(1)), ..edition("bundle") });
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut memory = PublisherMemory::default();
        memory.remember("object", old);
        assert_eq!([1, 2].map(|now| memory.published_since(old, at(now))), [at(1); 2]);
        assert_eq!([3, 4].map(|now| memory.published_since(new, at(now))), [at(3); 2]);
        memory.remember("object", new);
        assert_eq!([5, 6].map(|now| memory.published_since(new, at(now))), [at(5); 2]);
        assert_eq!([2, 3].map(|now| memory.published_since(new, at(now))), [at(2); 2], "a clock set back");
    }

    #[test]
    fn only_the_second_repair_for_the_same_bundle_waits() {
        let mut memory = PublisherMemory::default();
        for edition in [&edition("old"), &edition("new")] {
            assert_eq!(memory.pause("object", edition), None, "published");
            memory.remember("object", edition);
            assert_eq!(memory.pause("object", edition), None, "repaired at once");
            memory.remember("object", edition);
            assert!(memory.pause("object", edition).is_some());
            assert_eq!(memory.pause("other", edition), None);
        }
    }
}
