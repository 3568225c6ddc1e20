//! End-to-end tests: the real program against a real API server.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod injection;
mod launch_priority;
mod product;
mod protection;
mod review;
mod sidecarset;
mod support;
