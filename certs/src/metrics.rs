//! What the publisher counts, under the names that dashboards know (docs/behaviour/server.md#metrics).

use prometheus::{IntCounter, Registry};

/// Reads of the stored certificate. Cheap to clone: clones count together.
#[derive(Clone, Debug)]
pub struct ReadMetrics {
    pub(crate) reads: IntCounter,
    pub(crate) read_errors: IntCounter,
}

impl ReadMetrics {
    /// Counters in `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            reads: counter("certwatcher_read_certificate_total", "Reads of the stored certificate")?,
            read_errors: counter(
                "certwatcher_read_certificate_errors_total",
                "Reads of the stored certificate that failed",
            )?,
        })
    }
}
