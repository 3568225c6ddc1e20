//! What a plan is made from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::features::FeatureGates;
use jiff::Timestamp;

use super::children::{Child, Claim};
use super::failures::Failures;
use super::revision::StoredRevision;
use super::storage_class::StorageClasses;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use values::server_version::ServerVersion;

/// What Pods cost to delete, by name.
pub type Costs = BTreeMap<Box<str>, i64>;

/// Everything that a plan is made from.
///
/// # Assumptions
/// The snapshot is never older than the controller's own writes about this workload: every answer of the
/// API server to a create, a patch or a delete is in it, even where the watch has not shown it yet, and
/// after a write whose answer is not known (a timeout) the objects are read again before the next plan.
/// There are no expectations beside that. A snapshot that is older than what *others* did is harmless: each
/// write to an existing object carries the version that was observed.
#[derive(Debug)]
pub struct Snapshot<'a, W> {
    /// The workload, in the version that is stored.
    pub workload: &'a W,
    /// Every Pod with an owner reference to this UID, whether it runs, ends or has ended.
    pub pods: &'a [Arc<ObservedPod>],
    /// The Pods without a controller that the workload could adopt: for kinds whose Pods have names of their own those
    /// with such a name, for kinds with a Pod on each Node those of the namespace that name a revision.
    pub orphans: &'a [Arc<ObservedPod>],
    /// The claims with an owner reference to this UID, or with such a name
    /// ([`claim_stems`](super::kind::Workload::claim_stems)).
    pub claims: &'a [Arc<Claim>],
    /// The StorageClasses; none while no feature asks for them.
    pub storage_classes: &'a StorageClasses,
    /// Its child objects of other kinds, as far as a plan may delete them: ImagePullJobs of a rollout that is
    /// over.
    pub children: &'a [Arc<Child>],
    /// The ControllerRevisions of the namespace that the selector matches or that this UID owns; others do
    /// no harm.
    pub revisions: &'a [Arc<StoredRevision>],
    /// The Nodes, where the workload [reads](super::kind::Workload::reads_nodes) them; empty otherwise.
    pub nodes: &'a Nodes,
    /// Instance ids of Pods that this controller tried to create and the API server refused: their claims
    /// are kept for the next try. For kinds whose Pods have [places](super::kind::Workload::HAS_PLACES) of their
    /// own, these places, by the name of the Pod or of its Node: others are tried first. May be forgotten at a
    /// restart.
    pub refused: &'a BTreeSet<String>,
    /// Pods whose update in place the API server refused a short time ago, by UID. They are left alone, and
    /// others are updated in their place. May be forgotten at a restart.
    pub held: &'a BTreeMap<Box<str>, Refusal>,
    /// What Pods cost to delete, by name, for kinds that [rank](super::kind::Workload::wants_by_cost) by it: what a
    /// WorkloadSpread is about to write into their annotations.
    pub costs: &'a Costs,
    /// Where Pods failed, for kinds with a Pod on each Node. May be forgotten at a restart.
    pub failures: &'a Failures,
    /// `status.collisionCount` as far as the controller has come with it since the status was written.
    pub collision_count: Option<i32>,
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// What the operator settled, and what the cluster can do.
    pub environment: Environment,
}

impl<W> Snapshot<'_, W> {
    /// How often names of revisions were taken: what `stored` says, or more.
    pub(crate) fn collisions(&self, stored: Option<i32>) -> i32 {
        let stored = stored.unwrap_or(0);
        self.collision_count.unwrap_or(stored).max(stored)
    }
}

/// Why the update of a Pod was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the API server said.
    pub message: Box<str>,
    /// When it said so for the first time.
    pub since: Timestamp,
}

/// What all plans have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The flag `--cloneset-scaling-exclude-preparing-delete`.
    pub exclude_preparing_delete: bool,
    /// The API server's version, which says whether it has `pods/resize`.
    pub server: ServerVersion,
    /// The kind ImagePullJob is installed.
    pub pull_jobs: bool,
    /// Pods are created on their Nodes; the scheduler binds them there otherwise. The flags
    /// `--assign-pods-by-scheduler` and `--assign-bcj-pods-by-scheduler`, negated.
    pub bypasses_scheduler: bool,
}
