//! Updates that the API server refused: each is held up for a while, for longer each time, and nothing else
//! waits for it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::agenda::Milliseconds;
use kinds::workload::snapshot::Refusal;
use values::backoff::doubled;

/// The first pause, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(120));

/// Updates that are held up, by the identity of their Pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    holds: BTreeMap<Box<str>, Hold>,
    /// What the workload says anew is tried at once.
    generation: Option<i64>,
}

#[derive(Clone, Debug)]
struct Hold {
    failures: u32,
    ends: Milliseconds,
    refusal: Refusal,
}

impl Holds {
    /// Forgets everything where the workload is another than before.
    pub(super) fn review(&mut self, generation: Option<i64>) {
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
    }

    /// The update of the Pod was refused.
    pub(super) fn refused(&mut self, uid: &str, now: Milliseconds, time: Timestamp) {
        let refusal = Refusal { message: "Denied".into(), since: time };
        let hold = self.holds.entry(uid.into()).or_insert(Hold { failures: 0, ends: now, refusal });
        let pause = doubled(PAUSE, hold.failures).as_millis();
        hold.ends = now + Milliseconds::try_from(pause).unwrap_or(Milliseconds::MAX);
        hold.failures += 1;
    }

    /// The next refusal is the first again.
    pub(super) fn succeeded(&mut self, uid: &str) {
        self.holds.remove(uid);
    }

    /// Some update was refused, and others may well be.
    pub(super) fn any(&self) -> bool {
        !self.holds.is_empty()
    }

    /// What is held up now.
    pub(super) fn held(&self, now: Milliseconds) -> BTreeMap<Box<str>, Refusal> {
        let held = self.holds.iter().filter(|(_, hold)| hold.ends > now);
        held.map(|(uid, hold)| (uid.clone(), hold.refusal.clone())).collect()
    }

    /// The time until the first pause ends.
    pub(super) fn next(&self, now: Milliseconds) -> Option<Milliseconds> {
        self.holds.values().map(|hold| hold.ends.saturating_sub(now)).filter(|rest| *rest > 0).min()
    }
}
