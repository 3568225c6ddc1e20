//! The version of a Pod: quotas hold for each by itself, so that a rolling update gets a full quota for its new
//! Pods (docs/behaviour/workloadspread.md#versions-of-pods).

use std::collections::BTreeSet;
use std::sync::Arc;

use api::labels::{CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH};

use crate::workload::resolved::{DEPLOYMENT_REVISION, ResolvedWorkload};
use pod::observed::ObservedPod;
use values::selector::Labels;

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
        if !self.contain("pod") && !self.contain(owner) {
            return IGNORED;
        }
        let revision = || {
            let revision = labels.label(CONTROLLER_REVISION_HASH)?;
            Some(revision.rsplit_once('-').map_or(revision, |(_, hash)| hash))
        };
        let version = labels.label(POD_TEMPLATE_HASH).or_else(revision);
        version.filter(|version| !version.is_empty()).unwrap_or(IGNORED)
    }

    fn contain(&self, kind: &str) -> bool {
        self.0.contains(&kind.to_ascii_lowercase())
    }

    /// The version of a Pod.
    pub fn of<'p>(&self, pod: &'p ObservedPod) -> &'p str {
        self.version(pod.controller().map_or("", |owner| &owner.kind), &pod.metadata.labels)
    }
}

/// The version of Pods that a workload wants now; `None` where that is not known. That of a Deployment is known from
/// the ReplicaSet with the Deployment's own revision, of those that belong to it: a paused Deployment wants no other
/// yet.
pub fn latest(
    workload: &ResolvedWorkload,
    sets: &[Arc<ResolvedWorkload>],
    versioned: &VersionedKinds,
) -> Option<String> {
    let hash = |set: &ResolvedWorkload| {
        set.metadata.labels.get(POD_TEMPLATE_HASH).filter(|hash| !hash.is_empty()).map(str::to_owned)
    };
    let revision = |workload: &ResolvedWorkload| {
        workload.metadata.annotations.get(DEPLOYMENT_REVISION).map(str::to_owned)
    };
    if !versioned.contain(if &*workload.kind == "Deployment" { "ReplicaSet" } else { &workload.kind }) {
        return Some(IGNORED.to_owned());
    }
    match &*workload.kind {
        "Deployment" => {
            let present = revision(workload)?;
            hash(sets.iter().find(|set| revision(set).as_deref() == Some(&*present))?)
        }
        "ReplicaSet" => Some(hash(workload).unwrap_or_else(|| IGNORED.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pod::observed::Pairs;

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
        assert_eq!(
            (kinds.version("ReplicaSet", &hash), kinds.version("CloneSet", &revision)),
            ("5d4f", "77")
        );
        assert_eq!(VersionedKinds::parse("").version("ReplicaSet", &hash), IGNORED);
    }

    #[test]
    fn the_latest_version_is_that_of_the_present_revision() {
        let read = |kind: &str, text: &str| ResolvedWorkload::read("apps", kind, text).unwrap();
        let set = |revision: &str, hash: &str| {
            let text = format!(
                r#"{{"metadata":{{"annotations":{{"{DEPLOYMENT_REVISION}":"{revision}"}},"labels":{{"pod-template-hash":"{hash}"}}}}}}"#
            );
            Arc::new(read("ReplicaSet", &text))
        };
        let sets = [set("1", "old"), set("2", "new")];
        let deployment = read(
            "Deployment",
            &format!(r#"{{"metadata":{{"annotations":{{"{DEPLOYMENT_REVISION}":"2"}}}}}}"#),
        );
        let kinds = VersionedKinds::default();
        assert_eq!(latest(&deployment, &sets, &kinds).as_deref(), Some("new"));
        assert_eq!(latest(&deployment, &sets[..1], &kinds), None);
        assert_eq!(latest(&deployment, &sets, &VersionedKinds::parse("")).as_deref(), Some(IGNORED));
        assert_eq!(latest(&sets[0], &[], &kinds).as_deref(), Some("old"));
        assert_eq!(latest(&read("ReplicaSet", "{}"), &[], &kinds).as_deref(), Some(IGNORED));
        assert_eq!(latest(&read("CloneSet", "{}"), &[], &kinds).as_deref(), Some(IGNORED));
    }
}
