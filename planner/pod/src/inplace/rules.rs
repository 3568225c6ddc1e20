//! How the kinds of workloads update their Pods in place.

use api::features::{Feature, FeatureGates};

use super::decision::Options;
use crate::revision_labels::RevisionLabels;
use values::server_version::ServerVersion;

/// When the start of an update sets lifecycle state `Updating`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetsUpdating {
    /// CloneSet.
    Always,
    /// StatefulSet: on Pods that have a state.
    IfPresent,
    /// DaemonSet.
    Never,
}

/// How a kind of workload updates its Pods in place (docs/behaviour/in-place-update.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How Pods carry their revision.
    pub labels: RevisionLabels,
    /// When lifecycle state `Updating` is set.
    pub sets_updating: SetsUpdating,
    /// Gate `InPlaceUpdateEnvFromMetadata`.
    pub env_from_metadata: bool,
    /// Gate `InPlaceWorkloadVerticalScaling`.
    pub vertical_scaling: bool,
    /// The API server, which says what running Pods can take.
    pub server: ServerVersion,
}

impl Rules {
    /// The rules of CloneSet.
    pub fn clone_set(gates: &FeatureGates, server: ServerVersion) -> Self {
        let short = gates.enabled(Feature::CloneSetShortHash);
        Self::new(RevisionLabels::CloneSet { short }, SetsUpdating::Always, gates, server)
    }

    /// The rules of Advanced StatefulSet.
    pub fn stateful_set(gates: &FeatureGates, server: ServerVersion) -> Self {
        Self::new(RevisionLabels::Exact, SetsUpdating::IfPresent, gates, server)
    }

    /// The rules of Advanced DaemonSet, which updates in place only Pods with the readiness gate.
    pub fn daemon_set(gates: &FeatureGates, server: ServerVersion) -> Self {
        Self::new(RevisionLabels::Hash, SetsUpdating::Never, gates, server)
    }

    fn new(
        labels: RevisionLabels,
        sets_updating: SetsUpdating,
        gates: &FeatureGates,
        server: ServerVersion,
    ) -> Self {
        Self {
            labels,
            sets_updating,
            env_from_metadata: gates.enabled(Feature::InPlaceUpdateEnvFromMetadata),
            vertical_scaling: gates.enabled(Feature::InPlaceWorkloadVerticalScaling),
            server,
        }
    }

    /// The options of a decision about a change to `revision`.
    pub fn options<'a>(&self, revision: &'a str, grace_seconds: i32, claims_differ: bool) -> Options<'a> {
        Options {
            revision: self.labels.recorded(revision),
            grace_seconds,
            claims_differ,
            env_from_metadata: self.env_from_metadata,
            vertical_scaling: self.vertical_scaling,
            server: self.server,
        }
    }
}
