//! The controllers of Rollouts (docs/behaviour/rollouts.md#the-controller). They run with gate `Rollouts`. What to do is
//! decided by crate `rollouts`.
//!
//! ```text
//!   subject          the kinds: what each plans, and which changes concern it
//!     '-- controller   plan --> writes --> status --> Events, until a plan has nothing to do
//!           |-- reading    what a plan asks for, and what the writes returned
//!           |-- carry_out  the writes
//!           '-- known      what is known of the cluster
//!                 |-- lists    lists that are kept current: our own kinds, workloads, and what a running release reads
//!                 |-- kinds    how the API server serves a kind
//!                 '-- held     an object of a list
//! ```
//!
//! Without a Rollout there are watches of our own kinds and nothing else. The kind of a workload is watched once a Rollout
//! names it, and of it only the objects of Rollouts. Lists such as the ReplicaSets of a Deployment are watched while a
//! release is running that reads them. Everything else is read when a plan asks for it.

use std::sync::Arc;

use api::features::Feature;
use futures::future::BoxFuture;
use tokio::task::JoinSet;

use crate::Context;
use crate::workload::stores::Stores;

mod carry_out;
mod controller;
mod held;
mod kinds;
mod known;
mod lists;
mod owners;
mod reading;
mod subject;
#[cfg(test)]
mod tests;

use known::Known;
use subject::{BatchReleases, DaemonSets, Deployments, Histories, Rollouts, TrafficRoutings};

/// Starts the controllers whose gates are on.
pub(crate) fn start(context: &Context, stores: &Arc<Stores>, tasks: &mut JoinSet<()>) {
    let gates = &context.settings.gates;
    if !gates.enabled(Feature::Rollouts) {
        return;
    }
    let known = Arc::new(Known::new(context, stores.clone()));
    context.metrics.caches.count("rollouts", "any", &known, |known| known.lists.len());
    // Each is told from now on what the lists show, and these begin afterwards.
    let mut controllers: Vec<BoxFuture<'static, ()>> = vec![
        Box::pin(controller::run::<Rollouts>(context, &known)),
        Box::pin(controller::run::<BatchReleases>(context, &known)),
        Box::pin(controller::run::<TrafficRoutings>(context, &known)),
        Box::pin(controller::run::<DaemonSets>(context, &known)),
    ];
    if gates.enabled(Feature::AdvancedDeployment) {
        controllers.push(Box::pin(controller::run::<Deployments>(context, &known)));
    }
    if gates.enabled(Feature::RolloutHistory) {
        controllers.push(Box::pin(controller::run::<Histories>(context, &known)));
    }
    known.follow_own_kinds();
    controllers.into_iter().for_each(|controller| drop(tasks.spawn(controller)));
}
