//! PodProbeMarker and NodePodProbe: checks of containers, whose results are written onto the Pods
//! (docs/behaviour/probes.md).
//!
//! ```text
//!   validation   what a PodProbeMarker may say
//!   injection    the probes of a new Pod, for platforms without an agent
//!   marker       a PodProbeMarker as its controller needs it: which Pods it is for, what is written about it
//!   probed       which probes run in the Pods of a node, and what the agent gets to know about them
//!   node         which Nodes have a NodePodProbe, and what changes in it
//!   results      what the results of probes change in a Pod
//!   liveness     liveness probes that the agent runs instead of the kubelet; restarts  what is done where one fails
//!   trigger      which changes concern which nodes and markers
//! ```

pub mod injection;
pub mod liveness;
pub mod marker;
pub mod node;
pub mod probed;
pub mod restarts;
pub mod results;
pub mod trigger;
pub mod validation;

#[cfg(test)]
mod tests;

use api::conditions::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};

/// Conditions of Pods that belong to Kubernetes and to Kruise, and are nothing that a probe may write.
const TAKEN_CONDITIONS: [&str; 6] =
    ["PodScheduled", "Initialized", "Ready", "ContainersReady", KRUISE_POD_READY, IN_PLACE_UPDATE_READY];

/// What parts the name of a marker from the name of its probe in a NodePodProbe.
const SEPARATOR: char = '#';

/// The states of a probe.
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
