//! What is counted of releases (docs/metrics.md).

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// What is counted of releases.
pub(crate) struct Releases {
    /// Those that have ended, by `result`.
    pub(crate) ended: IntCounterVec,
    /// How long steps were in a `state`.
    pub(crate) steps: HistogramVec,
}

impl Releases {
    /// Metrics in `registry`.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let ended = Opts::new("kutter_rollout_releases_total", "releases that have ended, by their result");
        let help = "how long steps of releases were in each of their states";
        let steps = HistogramOpts::new("kutter_rollout_step_duration_seconds", help);
        // From a second to two days.
        let steps = steps.buckets(prometheus::exponential_buckets(1.0, 3.0, 12)?);
        let metrics = Self {
            ended: IntCounterVec::new(ended, &["result"])?,
            steps: HistogramVec::new(steps, &["state"])?,
        };
        registry.register(Box::new(metrics.ended.clone()))?;
        registry.register(Box::new(metrics.steps.clone()))?;
        Ok(metrics)
    }
}
