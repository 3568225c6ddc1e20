//! Counters of admission, under the names that dashboards know (docs/behaviour/server.md#metrics and
//! docs/behaviour/deletion-protection.md#protection-metrics). The text encoder appends nothing to them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use values::short::{NAME, shortened};

/// The reason of a handshake that failed because the caller did not accept our certificate.
pub(crate) const REFUSED: &str = "refused";
/// So many series has a metric whose labels callers choose.
const SERIES: usize = 1000;
/// What has no series of its own, and who is no label.
const OTHER: &str = "other";
/// The users that are labels besides service accounts: there are few of them in any cluster.
const KNOWN_USERS: [&str; 6] = [
    "admin",
    "kubernetes-admin",
    "system:admin",
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
];

/// The metrics of one process. Cheap to clone: clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    latency: HistogramVec,
    in_flight: IntGaugeVec,
    pub(crate) reviews: IntCounterVec,
    pub(crate) panics: IntCounter,
    pub(crate) overloads: IntCounter,
    pub(crate) handshake_failures: IntCounterVec,
    pub(crate) connections: IntGauge,
    pub(crate) connections_refused: IntCounter,
    pub(crate) connections_displaced: IntCounter,
    pub(crate) log_lines_dropped: IntCounter,
    pub(crate) namespaces_kept: RefusalCounter,
    pub(crate) definitions_kept: RefusalCounter,
    pub(crate) workloads_kept: RefusalCounter,
    pub(crate) resources_kept: RefusalCounter,
    pub(crate) disruptions_refused: RefusalCounter,
}

/// Refusals by object and user, as reviews name them: both are cut, and so many pairs have series of their own
/// (docs/behaviour/server.md#bounds-of-what-callers-choose).
#[derive(Clone, Debug)]
pub(crate) struct RefusalCounter {
    counter: IntCounterVec,
    known: Arc<Mutex<HashSet<[String; 2]>>>,
}

/// The metrics of one path, looked up once.
#[derive(Clone, Debug)]
pub(crate) struct PathMetrics {
    requests: IntCounterVec,
    answered: IntCounter,
    latency: Histogram,
    in_flight: IntGauge,
    path: &'static str,
}

/// A call that is being answered; leaves the gauge when dropped.
pub(crate) struct InFlight<'a>(&'a PathMetrics);

impl Metrics {
    /// All metrics at zero, in a registry of their own.
    ///
    /// # Errors
    /// A name was registered twice.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let counters =
            |name, help, labels: &[&str]| keep(&registry, IntCounterVec::new(Opts::new(name, help), labels)?);
        let counter = |name, help| keep(&registry, IntCounter::new(name, help)?);
        let refusals = |name, help, object| {
            let counter = counters(name, help, &[object, "username"])?;
            Ok::<_, prometheus::Error>(RefusalCounter { counter, known: Arc::default() })
        };
        let latency = HistogramOpts::new(
            "controller_runtime_webhook_latency_seconds",
            "Histogram of the latency of processing admission requests",
        );
        let handshake_failures = counters(
            "kutter_tls_handshake_failures",
            "TLS handshakes that failed; reason refused: the caller did not accept our certificate; client: its own does not count.",
            &["reason"],
        )?;
        // An increase is visible only where there was a sample before it.
        handshake_failures.with_label_values(&[REFUSED]);
        Ok(Self {
            requests: counters(
                "controller_runtime_webhook_requests_total",
                "Total number of admission requests by HTTP status code.",
                &["webhook", "code"],
            )?,
            latency: keep(&registry, HistogramVec::new(latency, &["webhook"])?)?,
            in_flight: keep(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "controller_runtime_webhook_requests_in_flight",
                        "Current number of admission requests being served.",
                    ),
                    &["webhook"],
                )?,
            )?,
            reviews: counters(
                "kutter_admission_reviews",
                "Reviews answered, by the code inside the answer: 200 allowed, everything else refused.",
                &["webhook", "code"],
            )?,
            panics: counter(
                "kutter_admission_panics",
                "Calls whose answer panicked; they were refused with code 500.",
            )?,
            overloads: counter(
                "kutter_admission_overloads",
                "Calls turned away because too many were in flight, or there was no memory for their bodies.",
            )?,
            handshake_failures,
            connections: keep(&registry, IntGauge::new("kutter_connections", "Open connections.")?)?,
            connections_refused: counter(
                "kutter_connections_refused",
                "Connections closed at once because their peer had too many.",
            )?,
            connections_displaced: counter(
                "kutter_connections_displaced",
                "Idle connections closed because their place was needed.",
            )?,
            log_lines_dropped: counter(
                "kutter_protection_log_lines_dropped",
                "Lines that the protection log could not take.",
            )?,
            namespaces_kept: refusals(
                "namespace_deletion_protection",
                "Namespace Deletion Protection",
                "name",
            )?,
            definitions_kept: refusals(
                "crd_deletion_protection",
                "CustomResourceDefinition Deletion Protection",
                "name",
            )?,
            workloads_kept: refusals(
                "workload_deletion_protection",
                "Workload Deletion Protection",
                "kind_namespace_name",
            )?,
            resources_kept: refusals(
                "resource_deletion_protection",
                "Service and Ingress Deletion Protection",
                "kind_namespace_name",
            )?,
            disruptions_refused: refusals(
                "pod_unavailable_budget",
                "Pod Unavailable Budget Metrics",
                "kind_namespace_name",
            )?,
            registry,
        })
    }

    /// Where other parts of the process register theirs.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Everything registered, in Prometheus' text format.
    ///
    /// # Errors
    /// A collector gave something that the format cannot hold.
    pub fn render(&self) -> prometheus::Result<String> {
        render(&self.registry)
    }

    /// Calls turned away because too many were in flight.
    pub fn overloads(&self) -> u64 {
        self.overloads.get()
    }

    pub(crate) fn path(&self, path: &'static str) -> PathMetrics {
        PathMetrics {
            requests: self.requests.clone(),
            answered: self.requests.with_label_values(&[path, "200"]),
            latency: self.latency.with_label_values(&[path]),
            in_flight: self.in_flight.with_label_values(&[path]),
            path,
        }
    }

    pub(crate) fn count_review(&self, path: &str, code: u16) {
        // The allowed review is the common one.
        match code {
            200 => self.reviews.with_label_values(&[path, "200"]).inc(),
            _ => self.reviews.with_label_values(&[path, &code.to_string()]).inc(),
        }
    }
}

impl RefusalCounter {
    /// Counts a refusal of what `user` wanted to do to `object`; without a user its label stays empty.
    pub(crate) fn count(&self, object: &str, user: Option<&str>) {
        let is_label = |user: &str| user.starts_with("system:serviceaccount:") || KNOWN_USERS.contains(&user);
        let user = user.map_or("", |user| if is_label(user) { user } else { OTHER });
        let labels = [object, user].map(|label| shortened(label, NAME).to_owned());
        // Held for a single operation only.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&labels) || known.len() < SERIES {
            self.counter.with_label_values(&labels).inc();
            known.insert(labels);
        } else {
            self.counter.with_label_values(&[OTHER, OTHER]).inc();
        }
    }
}

impl PathMetrics {
    pub(crate) fn enter(&self) -> InFlight<'_> {
        self.in_flight.inc();
        InFlight(self)
    }

    pub(crate) fn finish(&self, status: u16, elapsed: Duration) {
        match status {
            200 => self.answered.inc(),
            _ => self.requests.with_label_values(&[self.path, &status.to_string()]).inc(),
        }
        self.latency.observe(elapsed.as_secs_f64());
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

/// Metrics in Prometheus' text format.
pub(crate) fn render(registry: &Registry) -> prometheus::Result<String> {
    TextEncoder::new().encode_to_string(&registry.gather())
}

fn keep<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> prometheus::Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_rendered_as_dashboards_know_them() {
        let metrics = Metrics::new().unwrap();
        metrics.namespaces_kept.count("a", Some("admin"));
        metrics.path("/mutate-pod").finish(200, Duration::from_millis(3));
        metrics.count_review("/mutate-pod", 403);
        let text = metrics.render().unwrap();
        for line in [
            "# HELP namespace_deletion_protection Namespace Deletion Protection\n",
            "namespace_deletion_protection{name=\"a\",username=\"admin\"} 1\n",
            "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/mutate-pod\"} 1\n",
            "controller_runtime_webhook_latency_seconds_count{webhook=\"/mutate-pod\"} 1\n",
            "controller_runtime_webhook_requests_in_flight{webhook=\"/mutate-pod\"} 0\n",
            "kutter_tls_handshake_failures{reason=\"refused\"} 0\n",
            "kutter_admission_reviews{code=\"403\",webhook=\"/mutate-pod\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn what_callers_name_does_not_grow_the_metrics_without_bound() {
        let metrics = Metrics::new().unwrap();
        let long = "a".repeat(50_000);
        for number in 0..2 * SERIES {
            metrics.workloads_kept.count(&format!("{number}{long}"), Some(&format!("{number}{long}")));
        }
        let account = format!("system:serviceaccount:{long}");
        metrics.resources_kept.count(&long, Some(&account));
        metrics.resources_kept.count(&long, None);
        let text = metrics.render().unwrap();
        assert!(text.len() < 400 * SERIES, "{}", text.len());
        let cut = &long[..NAME];
        for line in [
            format!(
                "workload_deletion_protection{{kind_namespace_name=\"other\",username=\"other\"}} {SERIES}\n"
            ),
            format!(
                "resource_deletion_protection{{kind_namespace_name=\"{cut}\",username=\"{}\"}} 1\n",
                &account[..NAME]
            ),
            format!("resource_deletion_protection{{kind_namespace_name=\"{cut}\",username=\"\"}} 1\n"),
        ] {
            assert!(text.contains(&line), "{line} is missing");
        }
        assert_eq!(text.matches("workload_deletion_protection{").count(), SERIES + 1);
    }
}
