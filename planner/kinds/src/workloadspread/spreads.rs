//! What the rules of WorkloadSpreads need of the cluster.

use std::sync::Arc;

use super::custom::CustomWorkloads;
use super::spread::Spread;
use super::version::VersionedKinds;
use crate::workload::listed::Listed;
use crate::workload::target::Workload;

/// The WorkloadSpreads and the workloads that they may divide. A clone is cheap and never changes.
#[derive(Clone, Debug, Default)]
pub struct Spreads {
    /// The WorkloadSpreads, by name, and the workloads of other kinds.
    pub listed: Listed<Spread, CustomWorkloads>,
    /// The kinds whose Pods have versions.
    pub versioned: Arc<VersionedKinds>,
}

impl Spreads {
    /// The WorkloadSpreads of a namespace by name.
    pub fn of(&self, namespace: &str) -> &[Spread] {
        self.listed.of(namespace)
    }

    /// The WorkloadSpread of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Spread> {
        self.of(namespace).iter().find(|spread| spread.name() == name)
    }

    /// The WorkloadSpread that divides the Pods of this workload.
    pub fn dividing(&self, namespace: &str, target: &Workload<'_>) -> Option<&Spread> {
        self.of(namespace).iter().find(|spread| spread.is_active() && spread.target() == target)
    }

    /// The workloads of other kinds, or what is wrong with their list.
    pub fn custom(&self) -> Result<&CustomWorkloads, &str> {
        self.listed.listed()
    }
}
