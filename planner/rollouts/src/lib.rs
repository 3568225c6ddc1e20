//! What Rollouts decide (docs/behaviour/rollouts.md): pure functions from the objects of a release and the time to what is
//! to be written.
//!
//! ```text
//!   view, object     what was read of the cluster, and what is still to be read
//!   plan, write      what to write, which Events to record, when to look again
//!   draft            an object as it is to be
//!   settings         what holds for all Rollouts
//!   workload         the workload of a release, whatever its kind
//!   freeze           stops a workload when its template changes
//!   validation       refuses Rollouts that can't work
//!   rollout          the steps of a release, from its beginning to its end
//!   batch_release    how many Pods are new: batch by batch
//!   traffic, script  which share of the requests new Pods get
//!   traffic_routing  one rule of traffic for several Rollouts
//!   history          what a release was, for those who look back
//!   deployment       rolls a Deployment as far as its release allows
//!   daemonset        rolls a DaemonSet as far as its release allows
//!   preview          what a release would do
//!   explanation      why a release stands where it stands
//! ```

pub mod batch_release;
pub mod daemonset;
pub mod deployment;
mod draft;
pub mod explanation;
pub mod freeze;
pub mod history;
pub mod object;
pub mod plan;
pub mod preview;
pub mod reference;
pub mod rollout;
pub mod script;
pub mod settings;
pub mod traffic;
pub mod traffic_routing;
pub mod validation;
pub mod view;
pub mod workload;
pub mod write;

#[cfg(test)]
mod tests;
