//! `bench-controllers`: what the controllers, and the agents of nodes, cost on one core, with Pods on fake nodes. CPU time and memory
//! are those of the program's process; its calls are read from the audit log of the API server.
//!
//! Whatever goes wrong panics: a bench that could not measure has no result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "bench: a failure ends the measurement"
)]

mod budget;
mod cloneset;
mod daemonset;
mod node;
mod release;
mod rollout;
mod sidecarset;
mod spread;
mod statefulset;
mod united;

use std::path::PathBuf;

use benches::stand::Stand;
use clap::{Parser, ValueEnum};

/// Bench of Kutter's controllers
#[derive(Parser)]
struct Arguments {
    /// The controller to measure
    controller: Controller,
    /// The program to measure, built with --release
    #[arg(long)]
    kutter: PathBuf,
    /// Numbers of Pods, from small to large
    #[arg(long, value_delimiter = ',')]
    pods: Vec<usize>,
    /// Rollouts that rest
    #[arg(long, default_value_t = 500)]
    rollouts: usize,
    /// Seconds for which they rest
    #[arg(long, default_value_t = 60)]
    rest: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Controller {
    /// Sidecars are updated in place
    Sidecarset,
    /// Pods are created, updated in place and recreated
    Cloneset,
    /// Pods with names of their own are created, one after another and at once, and updated in place
    Statefulset,
    /// Pods of Nodes are created, updated in place and recreated; a job runs on all; kubelets report
    Daemonset,
    /// Pods of budgets are deleted and evicted; many budgets are counted
    Budget,
    /// Pods of three CloneSets of a UnitedDeployment are created and updated in place
    Uniteddeployment,
    /// Pods are placed by a WorkloadSpread
    Spread,
    /// Workloads are released by Rollouts in steps; many Rollouts rest
    Rollout,
    /// The agent of a node rests beside Pods, and images are handed out
    Node,
}

fn main() {
    let Arguments { controller, kutter, pods, rollouts, rest } = Arguments::parse();
    kit::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stand = Stand::start(&kutter).await;
        let sizes = |sizes: &[usize]| if pods.is_empty() { sizes.to_vec() } else { pods };
        match controller {
            Controller::Sidecarset => sidecarset::measure(&stand, &sizes(&[100, 1_000, 5_000])).await,
            Controller::Cloneset => cloneset::measure(&stand, &sizes(&[500, 1_000, 5_000])).await,
            Controller::Statefulset => statefulset::measure(&stand, &sizes(&[1_000, 5_000])).await,
            Controller::Daemonset => daemonset::measure(&stand, &sizes(&[1_000, 5_000])).await,
            Controller::Budget => budget::measure(&stand, &sizes(&[10_000])).await,
            Controller::Uniteddeployment => united::measure(&stand, &sizes(&[3_000])).await,
            Controller::Spread => spread::measure(&stand, &sizes(&[500, 2_000])).await,
            Controller::Rollout => release::measure(&stand, &sizes(&[100]), rollouts, rest).await,
            Controller::Node => node::measure(&stand, &sizes(&[100, 250])).await,
        }
    });
}
