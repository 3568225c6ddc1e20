//! What every webhook knows and uses: the feature gates, the cluster as last observed, metrics and the log of
//! refused deletes.

use std::fmt;
use std::sync::Arc;

use admission::world::Watched;
use api::features::FeatureGates;
use cluster::reservation::Reservations;
use informers::index::CacheState;
use informers::{Index, Lookup};
use kinds::podunavailablebudget::reserve::Rules;
use kinds::workloadspread::slots::Slots;
use pod::exit_priority;
use rollouts::validation::PARTITION_PERCENT_LIMIT;
use values::moment::Moment;
use values::verdict::Verdict;

use crate::metrics::Metrics;
use crate::protection_log::ProtectionLog;
use crate::refusals::Refusals;

/// The flags that admission obeys.
#[derive(Clone, Debug)]
pub struct AdmissionFlags {
    /// Whether templates may hold privileged containers (`--allow-privileged`).
    pub allow_privileged: bool,
    /// Whether metrics carry user names. Each user name is a time series of its own.
    pub user_names_in_metrics: bool,
    /// Whether clients are asked to try a refused eviction again (`--retry-refused-evictions`).
    pub retry_refused_evictions: bool,
    /// How the containers of Pods are made to end in their order.
    pub exit_priority: exit_priority::Settings,
    /// The most that a step of a Rollout with traffic may replace of a workload's own Pods, in percent
    /// (`--partition-percent-limit`).
    pub partition_percent_limit: i32,
    /// Whether Rollouts may name workloads of known kinds alone (`--filter-workload-type`).
    pub filter_workload_type: bool,
}

impl Default for AdmissionFlags {
    fn default() -> Self {
        Self {
            allow_privileged: true,
            user_names_in_metrics: true,
            retry_refused_evictions: false,
            exit_priority: exit_priority::Settings::default(),
            partition_percent_limit: PARTITION_PERCENT_LIMIT,
            filter_workload_type: true,
        }
    }
}

/// Time and randomness of a decision, asked once per review.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Everything that admission knows and uses, shared by all requests.
pub struct Admission {
    /// The feature gates of the process.
    pub gates: FeatureGates,
    /// The cluster as last observed.
    pub index: Arc<Index>,
    /// What the index does not hold.
    pub lookup: Lookup,
    /// The flags of the command line.
    pub flags: AdmissionFlags,
    /// Where it counts.
    pub metrics: Metrics,
    /// Where refused deletes are written down.
    pub protection_log: ProtectionLog,
    /// Where units of PodUnavailableBudgets are taken.
    pub budgets: Reservations<Rules>,
    /// Where places of WorkloadSpreads are taken.
    pub spreads: Reservations<Slots>,
    /// Who reports refused disruptions of Pods; nobody where there is no API server.
    pub refusals: Option<Refusals>,
    /// Time and randomness.
    pub clock: Clock,
}

impl fmt::Debug for Admission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Admission").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl Admission {
    /// The refusal of a review that needs the objects of `kind`; `None` where they are loaded.
    pub(crate) fn not_loaded(&self, kind: Watched) -> Option<Verdict> {
        let state = self.index.cache_state(kind);
        let reason = match &state {
            CacheState::Synced => return None,
            CacheState::Failing(message) => message,
            CacheState::AwaitingConversion(_) => "their conversion is not reachable yet",
            CacheState::Absent => "there was no such kind when it was last looked for",
            CacheState::Pending => "the first list is under way",
        };
        Some(Verdict::deny(503, format!("{kind} objects are not loaded: {reason}; try again")))
    }
}
