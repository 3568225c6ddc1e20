//! The version of a Pod: quotas hold for each by itself, so that a rolling update gets a full quota for its new
//! Pods (docs/behaviour/workloadspread.md#versions-of-pods).

use std::collections::BTreeSet;

use api::labels::{CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH};

use crate::pod::observed::ObservedPod;
use crate::text::selector::Labels;

/// The version of Pods whose workload has none that matters.
pub const IGNORED: &str = "versionIgnored";

/// The kinds whose Pods have versions (`--ws-enabled-versioned-status`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedKinds(BTreeSet<String>);

impl Default for VersionedKinds {
    fn default() -> Self {
        Self::parse("deployment,replicaset")
    }
}

impl VersionedKinds {
    /// Reads kinds with commas between them, in any case. The Pods of a Deployment belong to ReplicaSets.
    pub fn parse(kinds: &str) -> Self {
        let kinds = kinds.split(',').map(|kind| kind.trim().to_ascii_lowercase());
        let mut kinds: BTreeSet<String> = kinds.filter(|kind| !kind.is_empty()).collect();
        if kinds.contains("deployment") {
            kinds.insert("replicaset".to_owned());
        }
        Self(kinds)
    }

    /// The version of a Pod whose controller is of kind `owner`.
    pub(crate) fn version<'l>(&self, owner: &str, labels: &'l (impl Labels + ?Sized)) -> &'l str {
        if !self.0.contains("pod") && !self.0.contains(&owner.to_ascii_lowercase()) {
            return IGNORED;
        }
        let revision = || {
            let revision = labels.label(CONTROLLER_REVISION_HASH)?;
            Some(revision.rsplit_once('-').map_or(revision, |(_, hash)| hash))
        };
        let version = labels.label(POD_TEMPLATE_HASH).or_else(revision);
        version.filter(|version| !version.is_empty()).unwrap_or(IGNORED)
    }

    /// The version of a Pod.
    pub fn of<'p>(&self, pod: &'p ObservedPod) -> &'p str {
        self.version(pod.controller().map_or("", |owner| &owner.kind), &pod.metadata.labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::observed::Pairs;

    #[test]
    fn pods_of_replica_sets_have_the_hash_of_their_template() {
        let labels = |pairs: &[(&'static str, &'static str)]| -> Pairs { pairs.iter().copied().collect() };
        let hash = labels(&[("pod-template-hash", "5d4f"), ("controller-revision-hash", "web-77")]);
        let revision = labels(&[("controller-revision-hash", "web-x-77")]);
        let kinds = VersionedKinds::default();
        assert_eq!(kinds.version("ReplicaSet", &hash), "5d4f");
        assert_eq!(kinds.version("ReplicaSet", &revision), "77");
        assert_eq!(kinds.version("ReplicaSet", &labels(&[])), IGNORED);
        assert_eq!(kinds.version("CloneSet", &revision), IGNORED);
        let kinds = VersionedKinds::parse("Deployment, CloneSet");
        assert_eq!((kinds.version("ReplicaSet", &hash), kinds.version("CloneSet", &revision)), ("5d4f", "77"));
        assert_eq!(VersionedKinds::parse("").version("ReplicaSet", &hash), IGNORED);
    }
}
