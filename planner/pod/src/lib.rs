//! Everything about one Pod, whatever owns it.
//!
//! ```text
//!   template           defaulting and validation of Pod templates
//!   review             a Pod under review in admission: what is read of it, and the edits made to it
//!   disruption         a request that removes or changes a running Pod, as admission gets it
//!   observed, write    a Pod as controllers remember it, and what they change in it
//!   node_fit           on which Nodes a Pod may run
//!   restart_policy     whether a container runs again
//!   selector           which Pods the selector of an object means
//!   revision_labels    how a Pod says at which revision it is
//!   lifecycle          the states of a Pod's life and the hooks that hold it; lifecycle_state: the states alone
//!   inplace            updates of running Pods
//!   kruise_pod_ready, readiness_gate, ready_condition   the shared readiness gate, and `Ready` itself
//!   launch_priority, enhanced_liveness, exit_priority   annotations that change how containers start, are probed, end
//! ```
//!
//! A module belongs here if it needs one Pod, or one template, and no other object of the cluster. How several
//! Pods are counted, ordered or chosen belongs to `kinds::workload`.

pub mod disruption;
pub mod enhanced_liveness;
pub mod exit_priority;
pub mod inplace;
pub mod kruise_pod_ready;
pub mod launch_priority;
pub mod lifecycle;
mod lifecycle_state;
pub mod node_fit;
pub mod observed;
pub mod placement;
pub mod readiness_gate;
mod ready_condition;
pub mod restart_policy;
pub mod review;
pub mod revision_labels;
pub mod selector;
pub mod template;
pub mod write;
