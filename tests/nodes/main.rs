//! The chart with the real Helm, on real nodes, with the program as real Pods. One cluster serves all tests. Those that
//! keep to namespaces of their own share it, [`site::Site::installed`]; a test that changes what others rely on, nodes,
//! agents, replicas or the chart, has it alone: [`site::Site::alone`]. Without root they have nothing to run on, and say
//! so.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

#[path = "../e2e/chronicle.rs"]
#[expect(dead_code, reason = "tests on API servers use more of it")]
mod chronicle;
#[path = "../docs.rs"]
mod docs;
mod site;

/// The tests. Without root each passes without doing anything: its name says that there is a condition, and
/// its run that the condition did not hold.
#[path = "."]
mod only_as_root {
    /// Files in which every test has the cluster alone. Tests begin in the order of their names: these are over before
    /// the first that share it, which they would only keep apart.
    #[path = "."]
    mod alone {
        mod drain;
        mod exit_priority;
        mod life;
        mod replicas;
        mod spread;
        mod united;
    }
    mod cloneset;
    mod daemonset;
    mod images;
    mod launch;
    mod plugin;
    mod probes;
    mod restarts;
    mod rights;
    mod sidecarset;
    mod statefulset;
    mod work;
}
