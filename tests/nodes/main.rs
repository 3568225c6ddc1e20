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

#[path = "../e2e/chronicle.rs"]
mod chronicle;
#[path = "../docs.rs"]
mod docs;
mod site;

/// The tests. Without root each passes without doing anything: its name says that there is a condition, and
/// its run that the condition did not hold.
#[path = "."]
mod only_as_root {
    mod cloneset;
    mod daemonset;
    mod drain;
    mod exit_priority;
    mod images;
    mod launch;
    mod life;
    mod probes;
    mod replicas;
    mod restarts;
    mod rights;
    mod sidecarset;
    mod spread;
    mod statefulset;
    mod united;
    mod work;
}
