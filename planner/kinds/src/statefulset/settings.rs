//! What a StatefulSet asks for, with defaults and gates applied once.

use api::features::{Feature, FeatureGates};
use api::kinds::shared::{PodUpdatePolicy, UpdateStrategyType};
use api::kinds::statefulset::{ClaimRetention, ClaimUpdateType, PodManagementPolicy, Spec};

use crate::workload::ordinals::{Ordinals, ReservedOrdinals};
use values::percent::{Rounding, scaled};

/// Seconds that a Pod must be ready may be so many at most.
pub(crate) const MAX_MIN_READY_SECONDS: i32 = 300;

/// What becomes of a claim of the StatefulSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// It is deleted with the StatefulSet.
    pub with_set: bool,
    /// It is deleted with a Pod that is scaled in.
    pub with_pod: bool,
}

/// What a StatefulSet asks for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// So many Pods there are to be; 1 by default.
    pub replicas: i64,
    /// The ordinals that the Pods have.
    pub ordinals: Ordinals,
    /// Pods are created, deleted and updated one after another.
    pub monotonic: bool,
    /// Pods are updated when somebody deletes them.
    pub on_delete: bool,
    /// Nothing is updated nor deleted by label; all else continues.
    pub paused: bool,
    /// So many Pods stay at the current revision.
    pub partition: i64,
    /// So many Pods may be unavailable during an update.
    pub max_unavailable: usize,
    /// So many Pods may be unavailable while Pods are created.
    pub(crate) scale_budget: Option<usize>,
    /// Seconds that a Pod must be ready to count as available; 0 by default, 300 at most.
    pub min_ready_seconds: i32,
    pub(crate) update_policy: PodUpdatePolicy,
    /// None where the gate is off: owners of claims are left as they are.
    pub retention: Option<Retention>,
    /// Claims grow as the rollout reaches their Pods.
    pub(crate) resizes_claims: bool,
}

impl Settings {
    /// What `spec` means under these gates.
    pub fn of(spec: &Spec, gates: &FeatureGates) -> Self {
        let rolling = &spec.update_strategy.rolling_update;
        let replicas = spec.replicas.unwrap_or(1).max(0);
        let on_delete = spec.update_strategy.kind == Some(UpdateStrategyType::OnDelete);
        let starts = gates.enabled(Feature::StatefulSetStartOrdinal);
        let start = spec.ordinals.start.filter(|_| starts).unwrap_or(0).max(0);
        let count =
            |value| usize::try_from(scaled(value, replicas, Rounding::Down).unwrap_or(0)).unwrap_or(0);
        let limit = rolling.max_unavailable.as_ref().map_or(1, count).max(1);
        let claims = &spec.persistent_volume_claim_retention_policy;
        let deletes = |retention: &Option<ClaimRetention>| *retention == Some(ClaimRetention::Delete);
        let retention = gates.enabled(Feature::StatefulSetAutoDeletePVC).then(|| Retention {
            with_set: deletes(&claims.when_deleted),
            with_pod: deletes(&claims.when_scaled),
        });
        Self {
            replicas: replicas.into(),
            ordinals: Ordinals::new(start, replicas.into(), ReservedOrdinals::parse(&spec.reserve_ordinals)),
            monotonic: spec.pod_management_policy != Some(PodManagementPolicy::Parallel),
            on_delete,
            paused: rolling.paused,
            partition: rolling.partition.unwrap_or(0).max(0).into(),
            max_unavailable: limit,
            scale_budget: spec.scale_strategy.max_unavailable.as_ref().map(|value| count(value).max(1)),
            min_ready_seconds: rolling.min_ready_seconds.unwrap_or(0).clamp(0, MAX_MIN_READY_SECONDS),
            update_policy: rolling.pod_update_policy.clone().unwrap_or_default(),
            retention,
            resizes_claims: gates.enabled(Feature::StatefulSetAutoResizePVCGate)
                && spec.volume_claim_update_strategy.kind == Some(ClaimUpdateType::OnPodRollingUpdate),
        }
    }

    /// Pods with this ordinal or a smaller one stay at the current revision.
    pub fn is_partitioned(&self, ordinal: i32) -> bool {
        self.ordinals.rank(ordinal) < self.partition
    }
}
