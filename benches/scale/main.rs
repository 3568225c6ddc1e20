//! `bench-scale`: the program among 5,000 nodes and 150,000 Pods.
//!
//! ```text
//!   bench-scale run ---- the API server in memory, kubelets, and the objects: made once by the program, then copied
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
mod rollout;
mod stand;
mod traffic;
mod unit;

use std::path::PathBuf;
use std::time::Duration;

use benches::load;
use clap::{Args, Parser, Subcommand};

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
    /// Measures at an API server in memory and prints `figure NAME VALUE UNIT goal GOAL`, smaller is better
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
    /// The share of 5,000 nodes and 150,000 Pods; at least a two-hundredth
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Pods of the CloneSet that is rolled
    #[arg(long, default_value_t = 1_000)]
    pods: u32,
    /// Seconds for which the cluster rests
    #[arg(long, default_value_t = 60)]
    rest: u64,
}

impl Run {
    /// How many copies of the unit there are.
    fn units(&self) -> u32 {
        (f64::from(unit::UNITS) * self.scale).round().max(1.0) as u32
    }

    fn rest(&self) -> Duration {
        Duration::from_secs(self.rest)
    }
}

fn main() {
    match Arguments::parse().command {
        Command::Load(arguments) => load::generate(&arguments),
        Command::Run(arguments) => {
            kit::install_crypto_provider();
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(stand::measure(&arguments));
        }
    }
}
