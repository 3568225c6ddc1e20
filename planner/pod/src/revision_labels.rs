//! How Pods say at which revision they are (docs/behaviour/revisions.md#revision-labels-of-pods).

use api::labels::{CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH};

use crate::observed::ObservedPod;

/// How the Pods of a kind of workload carry their revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionLabels {
    /// CloneSet: label `controller-revision-hash` holds the revision's name or, with gate
    /// `CloneSetShortHash`, its short hash, and `pod-template-hash` the short hash. Both forms are
    /// recognised always, so no Pod changes when the gate does.
    CloneSet {
        /// The gate is on.
        short: bool,
    },
    /// StatefulSet: the label holds exactly the revision's name.
    Exact,
    /// DaemonSet: the label holds the short hash.
    Hash,
}

impl RevisionLabels {
    /// The labels of a Pod at `revision`.
    pub fn labels(self, revision: &str) -> Vec<(&'static str, &str)> {
        let short_hash = short_hash(revision);
        match self {
            Self::CloneSet { short } => vec![
                (CONTROLLER_REVISION_HASH, if short { short_hash } else { revision }),
                (POD_TEMPLATE_HASH, short_hash),
            ],
            Self::Exact | Self::Hash => vec![(CONTROLLER_REVISION_HASH, self.recorded(revision))],
        }
    }

    /// How records of an update name `revision`.
    pub fn recorded(self, revision: &str) -> &str {
        match self {
            Self::CloneSet { .. } | Self::Exact => revision,
            Self::Hash => short_hash(revision),
        }
    }

    /// The revision of the Pod, as its label holds it.
    pub fn revision_of(self, pod: &ObservedPod) -> Option<&str> {
        pod.label(CONTROLLER_REVISION_HASH)
    }

    /// The Pod is at `revision`.
    pub fn is_at(self, pod: &ObservedPod, revision: &str) -> bool {
        self.revision_of(pod).is_some_and(|label| self.same(label, revision))
    }

    /// Whether the value of a label means `revision`.
    pub fn same(self, label: &str, revision: &str) -> bool {
        match self {
            Self::CloneSet { .. } => short_hash(label) == short_hash(revision),
            Self::Exact => label == revision,
            // Revisions of very old releases have their whole name as label, and their Pods too.
            Self::Hash => label == short_hash(revision) || label == revision,
        }
    }
}

/// The hash that ends the name of a revision.
pub fn short_hash(revision: &str) -> &str {
    revision.rsplit_once('-').map_or(revision, |(_, hash)| hash)
}
