//! What the benches have in common: the stand on which they measure, and the form of their figures.
//!
//! Whatever goes wrong panics: a bench that could not measure has no result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "bench: a failure ends the measurement"
)]

pub mod audited;
pub mod calls;
pub mod in_memory;
pub mod load;
pub mod process;
pub mod program;
pub mod report;
pub mod review;
pub mod stand;
pub mod tls;

/// The variables that the chart sets for the program beside its port.
pub const ENVIRONMENT: [(&str, &str); 1] = [("MIMALLOC_PURGE_DELAY", "0")];
