//! The decisions of Kutter: pure functions from what is wanted and what is observed to what to do.
//! No I/O, no clock, no randomness: time and random numbers come in as arguments. The admission
//! server, the controllers and the command line call the same functions.
//!
//! ```text
//!   simulation   workloads in a simulated cluster
//!   plugin       what the kubectl plugin does to workloads, and how far their rollouts are
//!   server       admission and this replica: Pod reviews, the cluster's objects, registration, election
//!   kinds        one folder per kind or feature: CloneSet, SidecarSet, deletion protection, ...
//!   node         what the agent of one node decides: pulls, credentials
//!   workload     what all kinds of workloads share: actions, revisions, budgets of a rollout, status
//!   pod          one Pod: its template, its observed state, updates in place, lifecycle, launch order
//!   text         values and texts: JSON, patches, quantities, percentages, selectors, times
//! ```
//!
//! A layer calls only those below it; `tests/check-arrows.sh` checks it.

#[cfg(test)]
mod histories;
pub mod kinds;
pub mod node;
pub mod plugin;
pub mod pod;
pub mod server;
pub mod simulation;
pub mod text;
pub mod workload;
