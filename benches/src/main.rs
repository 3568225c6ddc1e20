//! `bench-admission`: the load bench of the admission server.
//!
//! ```text
//!   bench-admission run ---- plays the scenarios, reads CPU time and memory, prints the figures
//!     |- kutter serve        the product, pinned to one core
//!     |- bench-admission echo  a bare echo server, pinned to the same core; measured in turn
//!     `- bench-admission load  the load generator, pinned to another core
//! ```
//!
//! Whatever goes wrong panics: a bench that could not measure has no result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "bench: a failure ends the measurement"
)]

mod cluster;
mod cpu;
mod echo;
mod manifests;
mod product;

use std::path::PathBuf;

use benches::{load, report};
use clap::{Args, Parser, Subcommand, ValueEnum};

// The product's allocator, so that the echo server has no handicap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Load bench of Kutter's admission server
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures and prints `figure NAME VALUE UNIT goal GOAL`, smaller is better
    Run(Run),
    /// The echo server: reads a review, answers the same number of bytes each time
    #[command(hide = true)]
    Echo {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        answer_bytes: usize,
    },
    /// The load generator: connects, then plays one round for each line on its standard input
    #[command(hide = true)]
    Load(load::Arguments),
}

#[derive(Args)]
struct Run {
    /// The program to measure, built with --release
    #[arg(long)]
    kutter: PathBuf,
    /// Measure only these (may be repeated)
    #[arg(long)]
    only: Vec<Scenario>,
    /// Requests per round and server
    #[arg(long, default_value_t = 20_000)]
    requests: u32,
    /// Rounds, in each of which every server has its turn; figures are medians over the rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Pods in the cluster of the memory scenario
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// SidecarSets in the cluster of the memory scenario
    #[arg(long, default_value_t = 1_000)]
    sidecar_sets: usize,
    /// Namespaces in the cluster of the memory scenario
    #[arg(long, default_value_t = 200)]
    namespaces: usize,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// CPU of injected reviews with 2, 100 and 1,000 SidecarSets of which 2 match
    Injected,
    /// CPU of refused deletes
    Refused,
    /// CPU of deletes and evictions of Pods that no budget covers
    Unbudgeted,
    /// Size of the program
    Size,
    /// Time from the start of the process to its first answer
    FirstReview,
    /// API calls for Pods whose owner is unknown
    OwnerUnknown,
    /// Peak memory of leader and standby with a full cluster, and their answers to a steady load
    Memory,
}

fn main() {
    match Arguments::parse().command {
        Command::Echo { port, answer_bytes } => echo::serve(port, answer_bytes),
        Command::Load(arguments) => load::generate(&arguments),
        Command::Run(run) => measure(&run),
    }
}

/// Processes are children of this thread and end with it, so everything runs on it.
fn measure(run: &Run) {
    kit::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wants = |scenario| run.only.is_empty() || run.only.contains(&scenario);
    if wants(Scenario::Size) {
        let size = std::fs::metadata(&run.kutter).expect("the program exists; build it first").len();
        report::figure("binary-size", report::megabytes(size), "MB", Some(25.0));
    }
    runtime.block_on(async {
        if wants(Scenario::Injected) {
            cpu::injected(run).await;
        }
        if wants(Scenario::Refused) {
            cpu::refused(run).await;
        }
        if wants(Scenario::Unbudgeted) {
            cpu::unbudgeted(run).await;
        }
        if [Scenario::FirstReview, Scenario::OwnerUnknown, Scenario::Memory].into_iter().any(wants) {
            cluster::measure(run, wants).await;
        }
    });
}
