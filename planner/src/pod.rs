//! Everything about one Pod, whatever owns it. This floor calls [`crate::text`] only.
//!
//! ```text
//!   template           defaulting and validation of Pod templates
//!   review             a new Pod under review, and the edits made to it
//!   observed, write    a Pod as controllers remember it, and what they change in it
//!   inplace            updates of running Pods         lifecycle         hooks of their life
//!   kruise_pod_ready, readiness_gate                   the shared readiness gate
//!   launch_priority, enhanced_liveness                 annotations that change how containers start and are probed
//! ```

pub mod enhanced_liveness;
pub mod inplace;
pub mod kruise_pod_ready;
pub mod launch_priority;
pub mod lifecycle;
pub mod observed;
pub mod readiness_gate;
pub mod review;
pub mod template;
pub mod write;
