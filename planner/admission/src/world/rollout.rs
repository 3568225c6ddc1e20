//! A Rollout as admission knows it.

use std::cmp::Ordering;
use std::sync::Arc;

use api::annotations::LAST_APPLIED;
use api::kinds::rollout::Rollout;
use kinds::workload::namespaced::Entry;

/// A Rollout without what nobody reads. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KnownRollout(Arc<Rollout>);

impl KnownRollout {
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut rollout: Rollout = serde_json::from_str(text)?;
        rollout.metadata.annotations.remove(LAST_APPLIED);
        Ok(Self(Arc::new(rollout)))
    }

    pub(super) fn share(&self) -> Arc<Rollout> {
        self.0.clone()
    }
}

impl Entry for KnownRollout {
    fn name(&self) -> &str {
        &self.0.metadata.name
    }

    fn precedence(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}
