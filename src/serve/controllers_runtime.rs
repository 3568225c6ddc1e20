//! The election and the controllers, on their own runtime with their own client.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use cluster::client::{ConnectError, Connector};
use cluster::election::{self, End};
use controllers::Context;
use controllers::metrics::Metrics as ControllerMetrics;
use informers::Index;
use kube::Client;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{error, info};

use super::readiness::Readiness;
use super::settings::Settings;

/// How long a replica that did not lead serves admission after a restore, until the one that led has begun anew.
const TURN: Duration = Duration::from_secs(60);

/// The controllers in progress.
pub(crate) struct Leading {
    stop: oneshot::Sender<()>,
    task: JoinHandle<End>,
}

impl Leading {
    /// Stops the controllers and gives the Lease up.
    pub(crate) async fn stop(self) {
        // Dropping the sender is the signal.
        drop(self.stop);
        if self.task.is_finished() {
            return;
        }
        if let Err(error) = self.task.await {
            error!(%error, "the controllers did not stop in order");
        }
    }

    /// Waits until etcd was restored from a backup, and it is this replica's turn to begin anew: the one that led is the
    /// first, the others serve admission meanwhile.
    pub(crate) async fn restored(&mut self) {
        match (&mut self.task).await {
            Ok(End::Restored { led: true }) => {}
            Ok(End::Restored { led: false }) => sleep(TURN).await,
            Ok(End::Resigned) => pending().await,
            Err(error) => {
                error!(%error, "the controllers ended");
                pending::<()>().await;
            }
        }
    }
}

/// Starts the controllers on `runtime`; they begin once this replica has published its certificates.
pub(crate) fn start(
    settings: &Settings,
    connector: Connector,
    metrics: Arc<ControllerMetrics>,
    index: Arc<Index>,
    readiness: Readiness,
    runtime: &Runtime,
) -> Leading {
    let lease = settings.election.clone();
    let controllers = settings.controllers.clone();
    let (elected, webhooks_only) = (settings.elected, settings.webhooks_only);
    let (stop, mut stopped) = oneshot::channel();
    let task = runtime.spawn(async move {
        let work = async {
            if webhooks_only {
                return pending().await;
            }
            readiness.initialized().await;
            match connect(&connector, &lease) {
                Ok(clients) => clients,
                Err(error) => {
                    error!("the controllers have no client: {error:#}");
                    pending().await
                }
            }
        };
        let (client, evicting, lease_client) = tokio::select! {
            _ = &mut stopped => return End::Resigned,
            clients = work => clients,
        };
        let context = Context { client, evicting, metrics, index, settings: controllers };
        if !elected {
            info!("controllers start without an election");
            tokio::select! {
                _ = stopped => {}
                () = controllers::run_unelected(context) => {}
            }
            return End::Resigned;
        }
        // After a failure of its task another election begins.
        loop {
            let election = election::run(lease_client.clone(), lease.clone());
            let ended = tokio::select! {
                _ = &mut stopped => false,
                () = controllers::run_while_leading(context.clone(), &election) => true,
            };
            let end = election.resign().await;
            if !ended || end != End::Resigned {
                return end;
            }
        }
    });
    Leading { stop, task }
}

/// A client for the controllers, one for their evictions, and one for the Lease that gives up soon enough for a leader that is cut
/// off to know it before its Lease ends.
fn connect(
    connector: &Connector,
    lease: &election::Settings,
) -> Result<(Client, Client, Client), ConnectError> {
    let client = connector.connect("kruise-manager/controllers")?;
    let evicting = connector.connect_once("kruise-manager/controllers")?;
    let lease_client = connector.connect_with_timeout("kruise-manager/lease", lease.renew_deadline / 2)?;
    Ok((client, evicting, lease_client))
}
