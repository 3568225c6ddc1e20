//! The controllers: they run on the replica that holds the Lease.
//!
//! ```text
//!   Pod watch --> pods (those that wait for something) --keys--> queue --> pod_readiness
//!                                                        \-----> queue --> launch_priority
//!   CRDs of ours, now and then --------------------------------> storage_version
//! ```
//!
//! Keys go through queues that keep each key once and never block who feeds them; a reconcile that
//! fails or panics is tried again with growing pauses and disturbs no other object.

pub mod launch_priority;
pub mod metrics;
pub mod pod_readiness;
pub mod pods;
pub mod queue;
pub mod storage_version;

use std::sync::Arc;

use cluster::election::Election;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::info;

use crate::metrics::Metrics;
use crate::pods::Pods;

/// Why a reconcile failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API server refused, or can't be reached.
    #[error("{}", cluster::client::message(.0))]
    Cluster(#[from] kube::Error),
    /// An object of the API server is not what its kind says.
    #[error("an object is not understood: {0}")]
    Object(#[from] serde_json::Error),
}

/// What the controllers need to run.
#[derive(Clone)]
pub struct Context {
    /// A client of the controllers' own runtime.
    pub client: Client,
    /// Where they count.
    pub metrics: Arc<Metrics>,
}

/// Runs every controller whenever this replica leads; ends when the election does. Stopping in the
/// middle of anything is safe: each write leaves a state from which the next leader continues.
pub async fn run_while_leading(context: Context, election: &Election) {
    let mut leading = election.leading.clone();
    loop {
        let leads = *leading.borrow_and_update();
        context.metrics.set_leader(leads);
        if leads {
            info!("leading: controllers start");
            tokio::select! {
                () = run(context.clone()) => {}
                () = lost(&mut leading) => info!("not leading any more: controllers stop"),
            }
        } else if leading.changed().await.is_err() {
            return;
        }
    }
}

async fn lost(leading: &mut tokio::sync::watch::Receiver<bool>) {
    // An election that ended counts as lost.
    drop(leading.wait_for(|leads| !leads).await);
}

/// Runs every controller until it is dropped.
pub async fn run(context: Context) {
    let pods = Arc::new(Pods::default());
    let (readiness_keys, readiness_queue) = mpsc::unbounded_channel();
    let (launch_keys, launch_queue) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(pods::watch(context.client.clone(), pods.clone(), readiness_keys, launch_keys));
    tasks.spawn(pod_readiness::run(context.clone(), pods.clone(), readiness_queue));
    tasks.spawn(launch_priority::run(context.clone(), pods, launch_queue));
    tasks.spawn(storage_version::run(context.client));
    tasks.join_all().await;
}

/// The clock of the controllers: the one place where they read it.
fn now() -> planner::moment::Moment {
    planner::moment::Moment { now: jiff::Timestamp::now(), seed: 0 }
}
