//! What controllers count, under the names that dashboards know (docs/behaviour/server.md#metrics).

use cluster::cache_sizes::CacheSizes;
use cluster::queue::QueueMetrics;
use prometheus::{IntGauge, IntGaugeVec, Opts, Registry};

use self::objects::{ObjectMetrics, ShownKinds};
use self::releases::Releases;

pub mod objects;
pub(crate) mod releases;

/// How the Pods of SidecarSets are counted.
const SIDECAR_SET_STATES: [&str; 3] = ["matched", "injected", "missed"];

/// Counters, gauges and histograms of all controllers of a process.
pub struct Metrics {
    /// How much the caches of the process hold.
    pub caches: CacheSizes,
    lease: String,
    leader: IntGauge,
    leader_status: IntGaugeVec,
    /// What is counted of the queues.
    pub queues: QueueMetrics,
    sidecar_set_pods: IntGaugeVec,
    /// What is counted of releases.
    pub(crate) releases: Releases,
    /// What the objects of users say.
    pub(crate) objects: ObjectMetrics,
}

impl Metrics {
    /// Metrics in `registry`; `lease` names the election.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn register(registry: &Registry, lease: &str) -> prometheus::Result<Self> {
        let metrics = Self {
            caches: CacheSizes::register(registry)?,
            lease: lease.to_owned(),
            leader: IntGauge::new("kruise_manager_is_leader", "1 on the replica that leads")?,
            leader_status: IntGaugeVec::new(
                Opts::new("leader_election_master_status", "1 on the replica that holds the Lease"),
                &["name"],
            )?,
            queues: QueueMetrics::register(registry)?,
            sidecar_set_pods: IntGaugeVec::new(
                Opts::new(
                    "kutter_sidecarset_pods",
                    "Pods that a SidecarSet matches, those that have its sidecars, and those that were missed",
                ),
                &["sidecarset", "state"],
            )?,
            releases: Releases::register(registry)?,
            objects: ObjectMetrics::default(),
        };
        registry.register(Box::new(metrics.leader.clone()))?;
        registry.register(Box::new(metrics.leader_status.clone()))?;
        registry.register(Box::new(metrics.sidecar_set_pods.clone()))?;
        metrics.set_leader(false);
        Ok(metrics)
    }

    /// Shows the objects of these kinds.
    #[must_use]
    pub fn showing(mut self, kinds: ShownKinds) -> Self {
        self.objects = ObjectMetrics::of(kinds);
        self
    }

    /// The object metrics in Prometheus' text format; empty on a replica that does not lead, which has no controllers.
    ///
    /// # Errors
    /// There is something that the format cannot hold.
    pub fn object_text(&self) -> prometheus::Result<String> {
        if self.leads() { self.objects.text() } else { Ok(String::new()) }
    }

    /// Records whether this replica leads.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
        self.leader_status.with_label_values(&[self.lease.as_str()]).set(i64::from(leads));
    }

    /// Records that this replica runs the controllers without an election: it leads, but holds no Lease.
    pub(crate) fn set_unelected(&self) {
        self.leader.set(1);
    }

    /// Whether this replica runs the controllers.
    pub fn leads(&self) -> bool {
        self.leader.get() == 1
    }

    /// Records how many Pods a SidecarSet matches, how many of them have its sidecars, and how many were
    /// missed.
    pub(crate) fn count_sidecar_set(&self, name: &str, pods: [usize; 3]) {
        for (state, count) in SIDECAR_SET_STATES.into_iter().zip(pods) {
            self.sidecar_set_pods.with_label_values(&[name, state]).set(count as i64);
        }
    }

    /// Forgets a SidecarSet that is gone.
    pub(crate) fn forget_sidecar_set(&self, name: &str) {
        for state in SIDECAR_SET_STATES {
            // An error says that it was not counted.
            drop(self.sidecar_set_pods.remove_label_values(&[name, state]));
        }
    }

    /// Forgets all SidecarSets: another replica counts them.
    pub(crate) fn forget_sidecar_sets(&self) {
        self.sidecar_set_pods.reset();
    }
}
