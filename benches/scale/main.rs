//! `bench-scale`: the program among 5,000 nodes and 150,000 Pods at an API server in memory, and among a tenth of that at
//! etcd and kube-apiserver.
//!
//! ```text
//!   bench-scale run ---- the API server, kubelets, and the objects: made by the program, in memory once and then copied
//!     |- kutter serve       leader and standby, on one core
//!     `- bench-scale load   reviews, on another core
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

mod copies;
mod memory;
mod real;
mod rollout;
mod stand;
mod traffic;
mod unit;

use std::path::PathBuf;

use benches::load;
use clap::{Args, Parser, Subcommand, ValueEnum};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bench of Kutter at the size of its users
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures and prints `figure NAME VALUE UNIT goal GOAL`, smaller is better
    Run(Run),
    /// The load generator: connects, then plays one round for each line on its standard input
    #[command(hide = true)]
    Load(load::Arguments),
}

#[derive(Args)]
struct Run {
    /// The program to measure, built with --release
    #[arg(long)]
    kutter: PathBuf,
    /// Measure only at this API server
    #[arg(long)]
    only: Option<Server>,
    /// How often there are 25 nodes and 750 Pods: 200 times in memory, 20 times at kube-apiserver, unless given
    #[arg(long)]
    units: Option<u32>,
    /// Pods of the CloneSet that is rolled
    #[arg(long, default_value_t = 1_000)]
    pods: u32,
    /// Seconds for which the cluster rests
    #[arg(long, default_value_t = 60)]
    rest: u64,
}

/// Where the program is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Server {
    /// An API server in memory
    Memory,
    /// etcd and kube-apiserver
    Real,
}

fn main() {
    match Arguments::parse().command {
        Command::Load(arguments) => load::generate(&arguments),
        Command::Run(arguments) => {
            kit::install_crypto_provider();
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                if arguments.only != Some(Server::Real) {
                    memory::measure(&arguments).await;
                }
                if arguments.only != Some(Server::Memory) {
                    real::measure(&arguments).await;
                }
            });
        }
    }
}
