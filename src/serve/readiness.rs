//! Whether calls may come: certificate and registrations published, caches filled, a review sent to
//! ourselves answered, and not stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use informers::Index;
use tokio::sync::watch;

/// A review that every protected kind allows; its path is always served.
const CHECKED_PATH: &str = "/validate-namespace";
/// Pause between two self-checks while they fail, and while they succeed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The readiness of this replica.
#[derive(Clone)]
pub(crate) struct Readiness {
    index: Arc<Index>,
    certificates: watch::Receiver<certs::Status>,
    self_check: watch::Receiver<Result<(), String>>,
    stopping: Arc<AtomicBool>,
}

impl Readiness {
    /// Follows caches and certificates, and calls this very process now and then.
    pub(crate) fn new(index: Arc<Index>, certificates: &certs::Certificates) -> Self {
        let (sender, self_check) = watch::channel(Err("no review was sent to ourselves yet".to_owned()));
        tokio::spawn(check_ourselves(certificates.self_check.clone(), sender));
        Self { index, certificates: certificates.status.clone(), self_check, stopping: Arc::default() }
    }

    /// Unready from now on.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether this replica is ready.
    ///
    /// # Errors
    /// What it waits for.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err("stopping".to_owned());
        }
        let certificates = self.certificates.borrow();
        if !certificates.published {
            return Err(format!("certificates are not published: {}", certificates.reason));
        }
        self.self_check.borrow().clone()?;
        self.index.waiting_for().map_or(Ok(()), Err)
    }

    /// What it waits for; empty where it is ready.
    pub(crate) fn reason(&self) -> String {
        self.check().err().unwrap_or_default()
    }

    /// Waits until certificates were published for the first time.
    pub(crate) async fn initialized(&self) {
        let mut certificates = self.certificates.clone();
        if certificates.wait_for(|status| status.published).await.is_err() {
            // The publisher is gone: there is nothing to wait for any more.
            std::future::pending::<()>().await;
        }
    }

    /// Ends when nothing was published within `timeout`; else never.
    pub(crate) async fn failed_to_initialize(&self, timeout: Duration) {
        if tokio::time::timeout(timeout, self.initialized()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}

async fn check_ourselves(self_check: certs::SelfCheck, results: watch::Sender<Result<(), String>>) {
    while !results.is_closed() {
        let result = self_check.run(Some(CHECKED_PATH)).await;
        let result = result.map_err(|error| format!("a review sent to ourselves was not answered: {error}"));
        let pause = if result.is_err() { PAUSES.0 } else { PAUSES.1 };
        results.send_if_modified(|last| {
            let changed = *last != result;
            *last = result;
            changed
        });
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use admission::world::World;

    use super::*;

    #[test]
    fn what_the_certificates_wait_for_is_named() {
        let reason = "Secret external lacks ca.crt".to_owned();
        let (status, certificates) =
            watch::channel(certs::Status { reason, published: false, registered: false });
        let readiness = Readiness {
            index: Arc::new(Index::fixed(World::new(api::DEFAULT_NAMESPACE))),
            certificates,
            self_check: watch::channel(Ok(())).1,
            stopping: Arc::default(),
        };
        let expected = "certificates are not published: Secret external lacks ca.crt";
        assert_eq!(readiness.check(), Err(expected.to_owned()));
        status.send_modify(|status| status.published = true);
        assert_eq!(readiness.check(), Ok(()));
    }
}
