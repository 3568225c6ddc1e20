//! Leader election: controllers run on one replica at a time, the holder of a Lease.

use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

/// Where the Lease is and how long it holds (spec 00 §3.2).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; unique among the replicas.
    pub identity: String,
    /// How long a Lease holds without being renewed.
    pub lease_duration: Duration,
    /// How long before its end a leader that can't renew stops.
    pub renew_deadline: Duration,
}

/// The election under way: true while this replica leads.
pub struct Election {
    /// Changes whenever leadership is won or lost.
    pub leading: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Election {
    /// Gives the Lease up, so that another replica can take over at once.
    pub async fn resign(self) {
        drop(self.leading);
        if let Err(error) = self.task.await {
            warn!(%error, "the election did not end in order");
        }
    }
}

/// Takes part in the election until [`Election::resign`].
///
/// # Errors
/// The Lease can neither be read nor made.
pub async fn run(client: Client, settings: &Settings) -> Result<Election, LeaseManagerError> {
    let duration = settings.lease_duration.as_secs().max(2);
    let grace =
        settings.lease_duration.saturating_sub(settings.renew_deadline).as_secs().clamp(1, duration - 1);
    let manager = LeaseManagerBuilder::new(client, &settings.name)
        .with_namespace(&settings.namespace)
        .with_identity(&settings.identity)
        .with_duration(duration)
        .with_grace(grace)
        .build()
        .await?;
    let (leading, manager) = manager.watch().await;
    let task = tokio::spawn(async move {
        match manager.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => warn!(%error, "the Lease was not given up"),
            Err(error) => warn!(%error, "the election ended"),
        }
    });
    Ok(Election { leading, task })
}
