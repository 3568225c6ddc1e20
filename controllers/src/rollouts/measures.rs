//! What is counted of releases (docs/metrics.md).

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// What is counted of releases.
pub(crate) struct Measures {
    /// Those that have ended, by `result`.
    pub(super) releases: IntCounterVec,
    /// How long steps were in a `state`.
    pub(super) steps: HistogramVec,
}

impl Measures {
    /// Metrics in `registry`.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let releases =
            Opts::new("kutter_rollout_releases_total", "releases that have ended, by their result");
        let help = "how long steps of releases were in each of their states";
        let steps = HistogramOpts::new("kutter_rollout_step_duration_seconds", help);
        // From a second to two days.
        let steps = steps.buckets(prometheus::exponential_buckets(1.0, 3.0, 12)?);
        let measures = Self {
            releases: IntCounterVec::new(releases, &["result"])?,
            steps: HistogramVec::new(steps, &["state"])?,
        };
        registry.register(Box::new(measures.releases.clone()))?;
        registry.register(Box::new(measures.steps.clone()))?;
        Ok(measures)
    }
}
