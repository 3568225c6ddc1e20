//! The agent of one node (docs/behaviour/node-agent.md).
//!
//! ```text
//!   images       serves the NodeImage of the node
//!     |-- worker   one pull
//!     |-- secrets  the pull Secrets that the NodeImage names
//!     |-- providers  programs of the node that give credentials
//!     '-- records  the images that not everybody has, also after a restart
//!   probes       runs the probes of the NodePodProbe
//!     |-- worker   one probe
//!     '-- looks    what is known of the containers that are probed
//!   own          the NodeImage and the NodePodProbe: as they are, and the writes of their status
//!   recreate     carries out ContainerRecreateRequests
//!   meta         reports of containers what only the runtime knows
//!     |-- stop      stops one container; containers  those of the runtimes, as the planner knows them
//!     '-- error     why work failed
//!   exit_order   has the containers of a Pod end in their order
//!   http         one GET request, as the kubelet sends it
//!   pods         the Pods of the node, for all that ask for them
//!   metrics      what it counts
//! ```
//!
//! It reads the objects of its own node alone, and what it decides is in `agent`. At rest nothing wakes it
//! but the watch.

mod containers;
mod error;
pub mod exit_order;
pub mod http;
pub mod images;
pub mod meta;
pub mod metrics;
mod own;
pub mod pods;
pub mod probes;
pub mod recreate;
mod stop;
#[cfg(test)]
mod testing;
