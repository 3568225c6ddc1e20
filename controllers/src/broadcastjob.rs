//! Controller `broadcastjob-controller`: runs a Pod of each BroadcastJob to its end on every Node that suits it. What to do
//! is decided by `kinds::broadcastjob`; all else is the same for every kind of workload.

use std::sync::Arc;

use api::kinds::broadcastjob::BroadcastJob;

use crate::Context;
use crate::metrics::objects;
use crate::workload::builder::QueueSettings;
use crate::workload::controller;
use crate::workload::stores::Stores;

const NAME: &str = "broadcastjob-controller";

/// Reconciles BroadcastJobs. Never returns.
pub async fn run(context: Context, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.broadcastjob_workers };
    controller::run::<BroadcastJob>(settings, &objects::broadcastjob::TABLE, context, stores).await;
}
