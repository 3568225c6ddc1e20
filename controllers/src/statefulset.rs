//! Controller `statefulset-controller`: keeps the Pods and claims of StatefulSets as they are wanted. What to do is
//! decided by `kinds::statefulset`; all else is the same for every kind of workload.

use std::sync::Arc;

use api::kinds::statefulset::StatefulSet;

use crate::Context;
use crate::metrics::objects;
use crate::workload::builder::QueueSettings;
use crate::workload::controller;
use crate::workload::stores::Stores;

const NAME: &str = "statefulset-controller";

/// Reconciles StatefulSets. Never returns.
pub async fn run(context: Context, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.statefulset_workers };
    controller::run::<StatefulSet>(settings, &objects::statefulset::TABLE, context, stores).await;
}
