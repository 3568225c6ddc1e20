//! What a plan is made from.

use std::sync::Arc;

use api::kinds::uniteddeployment::UnitedDeployment;
use jiff::Timestamp;

use super::children::Child;
use crate::workload::revision::StoredRevision;
use pod::observed::ObservedPod;

/// Everything that a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The UnitedDeployment.
    pub united: &'a UnitedDeployment,
    /// The workloads that it owns, and those of its namespace that nobody manages and that name a subset.
    pub children: &'a [Arc<Child>],
    /// The Pods of its namespace that name a subset.
    pub pods: &'a [Arc<ObservedPod>],
    /// The ControllerRevisions that it owns, and those of its namespace that nobody owns.
    pub revisions: &'a [Arc<StoredRevision>],
    /// The time.
    pub now: Timestamp,
}
