//! Controller `cloneset-controller`: keeps the Pods of CloneSets as they are wanted. What to do is decided by
//! `kinds::cloneset`; all else is the same for every kind of workload.

use std::sync::Arc;

use api::kinds::cloneset::CloneSet;

use crate::Context;
use crate::metrics::objects;
use crate::workload::builder::QueueSettings;
use crate::workload::controller;
use crate::workload::stores::Stores;

#[cfg(test)]
mod tests;

const NAME: &str = "cloneset-controller";

/// Reconciles CloneSets. Never returns.
pub async fn run(context: Context, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.cloneset_workers };
    controller::run::<CloneSet>(settings, &objects::cloneset::TABLE, context, stores).await;
}
