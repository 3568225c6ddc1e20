//! The chart with the real Helm, on real nodes, with the program as real Pods. One cluster serves all
//! tests, one after the other: see [`site::Site`]. Without root they have nothing to run on, and say so.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod cloneset;
#[path = "../docs.rs"]
mod docs;
mod life;
mod replicas;
mod rights;
mod sidecarset;
mod site;
mod work;
