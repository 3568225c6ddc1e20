//! What the publisher remembers, among it how often it repairs what somebody else changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use planner::registration::Choices;
use planner::rotation::Leaf;

use crate::material::Material;

/// Two releases side by side may disagree on an object: this long between two repairs of it. The first
/// is immediate.
const REPAIR_PAUSE: Duration = Duration::from_secs(2);

/// What the task remembers from pass to pass.
#[derive(Default)]
pub(crate) struct Memory {
    /// What the store held last.
    pub(crate) material: Option<Material>,
    pub(crate) served: Option<Leaf>,
    /// The bundle published last, base64.
    pub(crate) published: Option<String>,
    pub(crate) added: Option<Instant>,
    /// The users' choices in effect; `None` before the first pass.
    pub(crate) choices: Option<Choices>,
    /// Why their present text is not in effect.
    pub(crate) refusal: Option<String>,
    /// Per object.
    written: BTreeMap<String, Written>,
}

/// What an object was last written for. With a new bundle a write is no repair.
struct Written {
    bundle: String,
    repaired: Option<Instant>,
}

impl Memory {
    /// How long `object` has to wait for its repair.
    pub(crate) fn pause(&self, object: &str, bundle: &str) -> Option<Duration> {
        let written = self.written.get(object).filter(|written| written.bundle == bundle)?;
        REPAIR_PAUSE.checked_sub(written.repaired?.elapsed())
    }

    pub(crate) fn remember(&mut self, object: &str, bundle: &str) {
        let known = self.written.get(object).is_some_and(|written| written.bundle == bundle);
        let written = Written { bundle: bundle.to_owned(), repaired: known.then(Instant::now) };
        self.written.insert(object.to_owned(), written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_repair_for_the_same_bundle_waits() {
        let mut memory = Memory::default();
        for bundle in ["old", "new"] {
            assert_eq!(memory.pause("object", bundle), None, "published");
            memory.remember("object", bundle);
            assert_eq!(memory.pause("object", bundle), None, "repaired at once");
            memory.remember("object", bundle);
            assert!(memory.pause("object", bundle).is_some());
            assert_eq!(memory.pause("other", bundle), None);
        }
    }
}
