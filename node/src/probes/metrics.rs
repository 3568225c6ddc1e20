//! What is counted of probes (docs/behaviour/node-agent.md#metrics). No label names a Pod.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// Counters of probes. Cheap to clone: clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    runs: IntCounterVec,
    workers: IntGauge,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Succeeded,
    Failed,
    /// The probe could not be run.
    Error,
}

impl Metrics {
    /// Counters in `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let runs = Opts::new(
            "kruise_daemon_probe_total",
            "Runs of probes, by what they check and what came of them",
        );
        let runs = IntCounterVec::new(runs, &["handler", "result"])?;
        let workers = IntGauge::new("kruise_daemon_probe_workers", "Probes that are run from time to time")?;
        registry.register(Box::new(runs.clone()))?;
        registry.register(Box::new(workers.clone()))?;
        Ok(Self { runs, workers })
    }

    pub(super) fn ran(&self, handler: &str, what: Counted) {
        let result = match what {
            Counted::Succeeded => "succeeded",
            Counted::Failed => "failed",
            Counted::Error => "error",
        };
        self.runs.with_label_values(&[handler, result]).inc();
    }

    pub(super) fn workers(&self, count: usize) {
        self.workers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
