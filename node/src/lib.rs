//! The agent of one node (docs/behaviour/node-agent.md).
//!
//! ```text
//!   images       serves the NodeImage of the node
//!     |-- worker   one pull
//!     '-- secrets  the pull Secrets that the NodeImage names
//!   probes       runs the probes of the NodePodProbe
//!     |-- worker   one probe
//!     '-- looks    what is known of the containers that are probed
//!   own          the NodeImage and the NodePodProbe: as they are, and the writes of their status
//!   http         one GET request, as the kubelet sends it
//!   pods         the Pods of the node, for all that ask for them
//!     '-- known    objects of one kind, as watches and own writes show them
//!   metrics      what it counts
//! ```
//!
//! It reads the objects of its own node alone, and what it decides is in `planner::node`. At rest nothing wakes it
//! but the watch.

pub mod http;
pub mod images;
pub mod known;
pub mod metrics;
mod own;
pub mod pods;
pub mod probes;
