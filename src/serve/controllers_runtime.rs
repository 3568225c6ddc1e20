//! The election and the controllers, on their own runtime with their own client.

use std::sync::Arc;

use anyhow::Context as _;
use cluster::election;
use controllers::Context;
use controllers::metrics::Metrics as ControllerMetrics;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::{error, info};
use webhooks::Metrics;

use super::readiness::Readiness;
use super::settings::Settings;

/// Pause after an election that could not begin.
const RETRY: std::time::Duration = std::time::Duration::from_secs(2);

/// The controllers under way.
pub(crate) struct Leading {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Leading {
    /// Stops the controllers and gives the Lease up.
    pub(crate) async fn stop(self) {
        // Dropping the sender is the signal.
        drop(self.stop);
        if let Err(error) = self.task.await {
            error!(%error, "the controllers did not stop in order");
        }
    }
}

/// Starts the controllers on `runtime`; they begin once this replica has published its certificates.
pub(crate) fn start(
    settings: &Settings,
    configuration: kube::Config,
    metrics: &Metrics,
    readiness: Readiness,
    runtime: &Runtime,
) -> anyhow::Result<Leading> {
    let lease = settings.election.clone();
    let metrics = Arc::new(ControllerMetrics::register(metrics.registry(), &lease.name)?);
    let (elected, webhooks_only) = (settings.elected, settings.webhooks_only);
    let (stop, mut stopped) = oneshot::channel();
    let task = runtime.spawn(async move {
        let work = async {
            if webhooks_only {
                return std::future::pending().await;
            }
            readiness.initialized().await;
            let client = cluster::client::connect(&configuration, "kruise-manager/controllers");
            let client = match client.context("the controllers have no client") {
                Ok(client) => client,
                Err(error) => {
                    error!("{error:#}");
                    return std::future::pending().await;
                }
            };
            let context = Context { client: client.clone(), metrics };
            if !elected {
                info!("controllers start without an election");
                controllers::run(context).await;
                return std::future::pending().await;
            }
            loop {
                match election::run(client.clone(), &lease).await {
                    Ok(election) => return (context, election),
                    Err(error) => error!(%error, "the election can't begin, will be tried again"),
                }
                tokio::time::sleep(RETRY).await;
            }
        };
        let (context, election) = tokio::select! {
            _ = &mut stopped => return,
            begun = work => begun,
        };
        tokio::select! {
            _ = stopped => {}
            () = controllers::run_while_leading(context, &election) => {}
        }
        election.resign().await;
    });
    Ok(Leading { stop, task })
}
