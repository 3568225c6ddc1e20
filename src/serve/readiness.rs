//! Whether calls may come: certificate and registrations published, caches filled, a review sent to
//! ourselves answered, and not stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::Index;
use tokio::sync::watch;

/// The readiness of this replica.
#[derive(Clone)]
pub struct Readiness {
    index: Arc<Index>,
    certificates: watch::Receiver<certs::Status>,
    stopping: Arc<AtomicBool>,
}

impl Readiness {
    /// Follows caches and certificates.
    pub fn new(index: Arc<Index>, certificates: watch::Receiver<certs::Status>) -> Self {
        Self { index, certificates, stopping: Arc::default() }
    }

    /// Unready from now on.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether this replica is ready.
    ///
    /// # Errors
    /// What it waits for.
    pub fn check(&self) -> Result<(), String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err("stopping".to_owned());
        }
        self.certificates.borrow().ready()?;
        self.index.waiting_for().map_or(Ok(()), Err)
    }

    /// What it waits for; empty where it is ready.
    pub fn reason(&self) -> String {
        self.check().err().unwrap_or_default()
    }

    /// Waits until certificates were published for the first time.
    pub async fn initialized(&self) {
        let mut certificates = self.certificates.clone();
        if certificates.wait_for(certs::Status::was_published).await.is_err() {
            // The publisher is gone: there is nothing to wait for any more.
            std::future::pending::<()>().await;
        }
    }

    /// Ends when nothing was published within `timeout`; else never.
    pub async fn failed_to_initialize(&self, timeout: Duration) {
        if tokio::time::timeout(timeout, self.initialized()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}
