//! Controller `daemonset-controller`: keeps a Pod of each DaemonSet on every Node that suits it. What to do is decided
//! by `kinds::daemonset`; all else is the same for every kind of workload.

use std::sync::Arc;

use api::kinds::daemonset::DaemonSet;

use crate::Context;
use crate::metrics::objects;
use crate::workload::builder::QueueSettings;
use crate::workload::controller;
use crate::workload::stores::Stores;

const NAME: &str = "daemonset-controller";

/// Reconciles DaemonSets. Never returns.
pub async fn run(context: Context, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.daemonset_workers };
    controller::run::<DaemonSet>(settings, &objects::daemonset::TABLE, context, stores).await;
}
