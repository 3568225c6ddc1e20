//! Leader election: controllers run on one replica at a time, the holder of a Lease.

use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
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

/// Pause before a new attempt after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// Longest time for giving the Lease up.
const RELEASE: Duration = Duration::from_secs(3);

impl Election {
    /// Gives the Lease up, so that another replica can take over at once.
    pub async fn resign(self) {
        drop(self.leading);
        if let Err(error) = self.task.await {
            warn!(%error, "the election did not end in order");
        }
    }
}

/// Takes part in the election until [`Election::resign`]. `client` should be used for nothing else: its
/// time limits decide how soon a leader that is cut off knows it.
pub fn run(client: Client, settings: Settings) -> Election {
    let (sender, leading) = watch::channel(false);
    Election { leading, task: tokio::spawn(campaign(client, settings, sender)) }
}

/// A leader that can't renew for longer than the deadline stops leading, whatever the Lease says, and
/// begins anew: another replica may have taken over.
async fn campaign(client: Client, settings: Settings, leading: watch::Sender<bool>) {
    while !leading.is_closed() {
        let manager = tokio::select! {
            () = leading.closed() => return,
            manager = manager(client.clone(), &settings) => manager,
        };
        let error = match manager {
            Ok(manager) => match hold(&manager, &settings, &leading).await {
                Ok(()) => return resign(&manager).await,
                Err(error) => error,
            },
            Err(error) => error,
        };
        warn!(%error, "the Lease can't be held, will be tried again");
        leading.send_replace(false);
        tokio::select! {
            () = leading.closed() => {}
            () = sleep(RETRY) => {}
        }
    }
}

async fn manager(client: Client, settings: &Settings) -> Result<LeaseManager, LeaseManagerError> {
    let duration = settings.lease_duration.as_secs().max(2);
    let grace =
        settings.lease_duration.saturating_sub(settings.renew_deadline).as_secs().clamp(1, duration - 1);
    LeaseManagerBuilder::new(client, &settings.name)
        .with_namespace(&settings.namespace)
        .with_identity(&settings.identity)
        .with_duration(duration)
        .with_grace(grace)
        .build()
        .await
}

/// Follows the Lease until nobody listens any more.
async fn hold(
    manager: &LeaseManager,
    settings: &Settings,
    leading: &watch::Sender<bool>,
) -> Result<(), LeaseManagerError> {
    // First and last failure of a row; a silence as long as the Lease holds means that renewals work.
    let mut failing: Option<(Instant, Instant)> = None;
    loop {
        let result = tokio::select! {
            () = leading.closed() => return Ok(()),
            result = manager.changed() => result,
        };
        let now = Instant::now();
        match result {
            Ok(leads) => {
                failing = None;
                leading.send_replace(leads);
            }
            Err(error) => {
                let first = match failing {
                    Some((first, last)) if now - last < settings.lease_duration => first,
                    _ => now,
                };
                failing = Some((first, now));
                if !*leading.borrow() || now - first >= settings.renew_deadline {
                    return Err(error);
                }
                sleep(RETRY).await;
            }
        }
    }
}

async fn resign(manager: &LeaseManager) {
    match timeout(RELEASE, manager.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "the Lease was not given up"),
        Err(_) => warn!("the Lease was not given up in time"),
    }
}
