//! What the agent counts (docs/behaviour/node-agent.md#metrics). No label names an image or a Pod.

use std::time::Duration;

use agent::exit_order::Outcome;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts, Registry};

/// Counters of pulls, stops and ends. Cheap to clone: clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    ended: IntCounterVec,
    duration: Histogram,
    running: IntGauge,
    stops: IntCounterVec,
    releases: IntCounterVec,
}

/// A pull that is going on; it leaves the gauge when it is dropped.
#[derive(Debug)]
pub(crate) struct Running(IntGauge);

impl Metrics {
    /// Counters in `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let ended =
            Opts::new("kruise_daemon_image_pull_total", "Pulls that have ended, by what came of them");
        let ended = IntCounterVec::new(ended, &["result"])?;
        let duration = HistogramOpts::new(
            "kruise_daemon_image_pull_duration_seconds",
            "Time that pulls took, all attempts together",
        );
        let duration = Histogram::with_opts(
            duration.buckets(vec![0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0]),
        )?;
        let running = IntGauge::new("kruise_daemon_image_pulls_running", "Pulls that are going on")?;
        let stops =
            Opts::new("kruise_daemon_container_stops_total", "Containers that were stopped, by what for");
        let stops = IntCounterVec::new(stops, &["by"])?;
        let releases = Opts::new(
            "kruise_daemon_exit_release_total",
            "Containers that were let go while their Pods ended, by why",
        );
        let releases = IntCounterVec::new(releases, &["result"])?;
        registry.register(Box::new(releases.clone()))?;
        registry.register(Box::new(ended.clone()))?;
        registry.register(Box::new(duration.clone()))?;
        registry.register(Box::new(running.clone()))?;
        registry.register(Box::new(stops.clone()))?;
        Ok(Self { ended, duration, running, stops, releases })
    }

    pub(crate) fn begin(&self) -> Running {
        self.running.inc();
        Running(self.running.clone())
    }

    /// A container was stopped, by `crr` or `meta`.
    pub(crate) fn stopped(&self, by: &str) {
        self.stops.with_label_values(&[by]).inc();
    }

    /// A container was let go while its Pod ended.
    pub(crate) fn released(&self, outcome: Outcome) {
        let result = match outcome {
            Outcome::Ordered => "ordered",
            Outcome::Timeout => "timeout",
            Outcome::ExecError => "exec_error",
        };
        self.releases.with_label_values(&[result]).inc();
    }

    pub(crate) fn end(&self, succeeded: bool, elapsed: Duration) {
        self.ended.with_label_values(&[if succeeded { "succeeded" } else { "failed" }]).inc();
        self.duration.observe(elapsed.as_secs_f64());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dec();
    }
}
