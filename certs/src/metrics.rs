//! What the publisher counts and knows (docs/behaviour/server.md#metrics).

use cluster::queue::QueueMetrics;
use prometheus::core::Collector;
use prometheus::{IntCounter, IntGauge, Registry};

/// The stored certificate and the one that is served. Cheap to clone: clones count together.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    pub(crate) reads: IntCounter,
    pub(crate) read_errors: IntCounter,
    /// Seconds since 1970; 0 before the first certificate.
    pub(crate) expiry: IntGauge,
    /// 1 after a pass in which nothing was left to do.
    pub(crate) in_order: IntGauge,
    pub(crate) queues: QueueMetrics,
}

impl CertificateMetrics {
    /// All of them at zero, in `registry`; the queue of the publisher counts with `queues`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn register(registry: &Registry, queues: QueueMetrics) -> prometheus::Result<Self> {
        let counter = |name, help| keep(registry, IntCounter::new(name, help)?);
        let gauge = |name, help| keep(registry, IntGauge::new(name, help)?);
        Ok(Self {
            reads: counter("certwatcher_read_certificate_total", "Reads of the stored certificate")?,
            read_errors: counter(
                "certwatcher_read_certificate_errors_total",
                "Reads of the stored certificate that failed",
            )?,
            expiry: gauge(
                "kutter_certificate_expiry_seconds",
                "When the served certificate or its authority expires, in seconds since 1970; 0 without one.",
            )?,
            in_order: gauge(
                "kutter_certificates_in_order",
                "1 where the certificate is published everywhere and all webhooks are registered.",
            )?,
            queues,
        })
    }
}

fn keep<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> prometheus::Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
