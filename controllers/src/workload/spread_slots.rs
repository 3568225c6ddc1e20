//! What WorkloadSpreads have to do with the Pods of a workload of ours: what it costs to delete them now, and the slots
//! of those that others refused to create or to delete (docs/behaviour/workloadspread.md#refused-requests).

use std::sync::Arc;
use std::time::Duration;

use cluster::reservation::Reservations;
use cluster::resource::SPREADS;
use informers::Index;
use kinds::workload::kind::Workload;
use kinds::workload::snapshot::Costs;
use kinds::workload::target;
use kinds::workloadspread::deletion::refused;
use kinds::workloadspread::plan::present_costs;
use kinds::workloadspread::slots;
use kube::Client;
use pod::observed::ObservedPod;
use tokio::time::Instant;
use tracing::warn;

/// Longest time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The WorkloadSpreads as admission knows them, and where their slots are taken.
pub(super) struct SpreadSlots {
    index: Arc<Index>,
    /// `None` while WorkloadSpreads are not in use.
    reservations: Option<Reservations<slots::Slots>>,
}

impl SpreadSlots {
    pub(super) fn new(client: Client, index: Arc<Index>, is_on: bool) -> Self {
        let reservations = is_on.then(|| Reservations::new(Some(client), slots::Slots));
        Self { index, reservations }
    }

    /// What it costs to delete the Pods of a workload that has too many.
    pub(super) fn costs<W: Workload>(&self, workload: &W, pods: &[Arc<ObservedPod>]) -> Costs {
        let replicas = workload.wants_by_cost().filter(|_| self.reservations.is_some());
        let has_too_many = |replicas: &i32| pods.len() > usize::try_from(*replicas).unwrap_or(0);
        let Some(replicas) = replicas.filter(has_too_many) else { return Costs::new() };
        let (world, metadata) = (self.index.world(), workload.metadata());
        let spreads = world.spreads();
        let target = target::Workload::referenced(W::API_VERSION, W::KIND, &metadata.name);
        let spread = spreads.dividing(&metadata.namespace, &target);
        let costs = spread.and_then(|spread| present_costs(spread, pods, replicas, &spreads.versioned));
        costs.unwrap_or_default()
    }

    /// The API server has refused to create or to delete this Pod of `namespace`.
    pub(super) async fn refused(&self, namespace: &str, pod: &ObservedPod) {
        let Some(reservations) = &self.reservations else { return };
        let world = self.index.world();
        let Some((spread, claim)) = refused(namespace, pod, world.spreads()) else { return };
        let path = SPREADS.namespaced(namespace).name(spread.name());
        let watched = Some(spread.text().clone());
        if let Err(error) = reservations.claim(&path, watched, claim, Instant::now() + TIMEOUT).await {
            warn!(namespace, spread = spread.name(), %error, "a refused request is not noted");
        }
    }
}
