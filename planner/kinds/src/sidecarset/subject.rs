//! What a SidecarSet says about the account of its Pods, in its annotations: since when it selects which Pods,
//! and how many may be evicted at a time.

use api::annotations::{EVICT_MISSED_PODS, SIDECARSET_PODS};
use api::sidecarset::{Metadata, Spec};
use jiff::Timestamp;
use serde::Deserialize;

use super::index::Entry;

/// The most Pods that may be away for evictions.
const MOST_AWAY: u32 = 1000;

/// What a SidecarSet says about its account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// When it was created, in seconds since 1970.
    pub(super) created: i64,
    pub(super) published: Option<Published>,
    /// The digest of the annotation.
    pub(super) digest: u64,
    /// How many Pods may be away for evictions; `None` where none is evicted.
    pub evict: Option<u32>,
}

/// What is read of the annotation again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Published {
    pub(super) since: Timestamp,
    selection: Box<str>,
}

impl Subject {
    /// Reads annotations and the time of creation.
    pub fn of(metadata: &Metadata) -> Self {
        let annotation = |key: &str| metadata.annotations.get(key).map(String::as_str);
        let published = annotation(SIDECARSET_PODS);
        let created = metadata.creation_timestamp.as_deref().and_then(|time| time.parse().ok());
        Self {
            created: created.map_or(0, Timestamp::as_second),
            published: published.and_then(|text| serde_json::from_str(text).ok()),
            digest: published.map_or(0, digest),
            evict: annotation(EVICT_MISSED_PODS).and_then(|text| eviction_limit(text).ok()),
        }
    }

    /// True if the annotation says this.
    pub fn says(&self, annotation: &str) -> bool {
        self.digest == digest(annotation)
    }

    /// Since when Pods should be injected: since the SidecarSet was created, or selected other Pods than
    /// before, in seconds since 1970.
    pub fn since(&self, entry: &Entry, now: Timestamp) -> i64 {
        match &self.published {
            None => self.created,
            Some(published) if *published.selection == *selection(&entry.object.spec) => {
                published.since.as_second().max(self.created)
            }
            Some(_) => now.as_second(),
        }
    }
}

/// How many Pods may be away, from the annotation's text.
///
/// # Errors
/// Why it is no such number.
pub(crate) fn eviction_limit(text: &str) -> Result<u32, String> {
    let limit = text.parse().ok().filter(|limit| (1..=MOST_AWAY).contains(limit));
    limit.filter(|_| text.bytes().all(|byte| byte.is_ascii_digit())).ok_or_else(|| {
        format!("must be a whole number from 1 to {MOST_AWAY}: how many Pods may be away at a time")
    })
}

/// FNV-1a: the same in every version of the program.
pub(super) fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Stands for what decides which new Pods are injected.
pub(super) fn selection(spec: &Spec) -> String {
    let parts = (&spec.selector, &spec.namespace_selector, spec.injection_strategy.paused);
    // Selectors are maps and lists of texts: writing them as JSON cannot fail.
    format!("{:016x}", digest(&serde_json::to_string(&parts).unwrap_or_default()))
}
