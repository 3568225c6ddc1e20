//! What tests of decisions are built on: histories from seeds, and templates at
//! random. No product code uses this crate.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it serves tests alone"
)]

pub mod histories;
pub mod templates;
