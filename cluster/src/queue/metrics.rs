//! What queues count, under the names that dashboards know (docs/behaviour/server.md#metrics).

use std::time::Duration;

use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

/// Counters, gauges and histograms of all queues of a process. Cheap to clone: clones count together.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    reconciles: IntCounterVec,
    errors: IntCounterVec,
    panics: IntCounterVec,
    seconds: HistogramVec,
    workers: IntGaugeVec,
    active: IntGaugeVec,
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    waited: HistogramVec,
    worked: HistogramVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Result {
    /// Nothing more to do.
    Success,
    /// To be reconciled again later.
    RequeueAfter,
    /// Failed, or panicked.
    Error,
}

impl Result {
    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
        }
    }
}

impl QueueMetrics {
    /// Metrics in `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let controller = &["controller"];
        let queue = &["name", "controller"];
        // From 10 nanoseconds to 1000 seconds, as client-go has them.
        let durations = |name: &str, help: &str| {
            let buckets = prometheus::exponential_buckets(1e-8, 10.0, 12)?;
            HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets), queue)
        };
        let metrics = Self {
            reconciles: IntCounterVec::new(
                Opts::new("controller_runtime_reconcile_total", "Reconciles by result"),
                &["controller", "result"],
            )?,
            errors: IntCounterVec::new(
                Opts::new("controller_runtime_reconcile_errors_total", "Reconciles that failed"),
                controller,
            )?,
            panics: IntCounterVec::new(
                Opts::new("kutter_reconcile_panics_total", "Reconciles that a defect of ours ended"),
                controller,
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new("controller_runtime_reconcile_time_seconds", "Duration of reconciles"),
                controller,
            )?,
            workers: IntGaugeVec::new(
                Opts::new(
                    "controller_runtime_max_concurrent_reconciles",
                    "Reconciles that may run at a time",
                ),
                controller,
            )?,
            active: IntGaugeVec::new(
                Opts::new("controller_runtime_active_workers", "Reconciles that run now"),
                controller,
            )?,
            depth: IntGaugeVec::new(Opts::new("workqueue_depth", "Keys that wait"), queue)?,
            adds: IntCounterVec::new(Opts::new("workqueue_adds_total", "Keys added"), queue)?,
            retries: IntCounterVec::new(Opts::new("workqueue_retries_total", "Keys tried again"), queue)?,
            waited: durations(
                "workqueue_queue_duration_seconds",
                "How long keys waited before their reconcile",
            )?,
            worked: durations("workqueue_work_duration_seconds", "Duration of reconciles, by queue")?,
            unfinished: GaugeVec::new(
                Opts::new("workqueue_unfinished_work_seconds", "Ages of all reconciles under way together"),
                queue,
            )?,
            longest: GaugeVec::new(
                Opts::new(
                    "workqueue_longest_running_processor_seconds",
                    "Age of the longest reconcile under way",
                ),
                queue,
            )?,
        };
        registry.register(Box::new(metrics.reconciles.clone()))?;
        registry.register(Box::new(metrics.errors.clone()))?;
        registry.register(Box::new(metrics.panics.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.workers.clone()))?;
        registry.register(Box::new(metrics.active.clone()))?;
        registry.register(Box::new(metrics.depth.clone()))?;
        registry.register(Box::new(metrics.adds.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.waited.clone()))?;
        registry.register(Box::new(metrics.worked.clone()))?;
        registry.register(Box::new(metrics.unfinished.clone()))?;
        registry.register(Box::new(metrics.longest.clone()))?;
        Ok(metrics)
    }

    pub(super) fn set_workers(&self, controller: &str, workers: usize) {
        self.workers.with_label_values(&[controller]).set(workers as i64);
        // There from the start, at zero.
        self.panics.with_label_values(&[controller]);
    }

    /// Counts a panic of a reconcile.
    pub fn panicked(&self, controller: &str) {
        self.panics.with_label_values(&[controller]).inc();
    }

    pub(super) fn added(&self, controller: &str) {
        self.adds.with_label_values(&[controller, controller]).inc();
    }

    pub(super) fn retried(&self, controller: &str) {
        self.retries.with_label_values(&[controller, controller]).inc();
    }

    pub(super) fn taken(&self, controller: &str, waited: Duration) {
        self.waited.with_label_values(&[controller, controller]).observe(waited.as_secs_f64());
    }

    pub(super) fn finished(&self, controller: &str, result: Result, worked: Duration) {
        let seconds = worked.as_secs_f64();
        self.reconciles.with_label_values(&[controller, result.label()]).inc();
        self.seconds.with_label_values(&[controller]).observe(seconds);
        self.worked.with_label_values(&[controller, controller]).observe(seconds);
        if result == Result::Error {
            self.errors.with_label_values(&[controller]).inc();
        }
    }

    /// Records how many keys wait, and the ages of the reconciles in progress.
    pub(super) fn observe(&self, controller: &str, waiting: usize, ages: impl Iterator<Item = Duration>) {
        let (mut active, mut sum, mut longest) = (0, Duration::ZERO, Duration::ZERO);
        for age in ages {
            active += 1;
            sum = sum.saturating_add(age);
            longest = longest.max(age);
        }
        let queue = &[controller, controller];
        self.depth.with_label_values(queue).set(waiting as i64);
        self.active.with_label_values(&[controller]).set(active);
        self.unfinished.with_label_values(queue).set(sum.as_secs_f64());
        self.longest.with_label_values(queue).set(longest.as_secs_f64());
    }
}
