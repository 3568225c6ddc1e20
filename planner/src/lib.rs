//! The decisions of Kutter: pure functions from what is wanted and what is observed to what to do.
//! No I/O, no clock, no randomness: time and random numbers come in as arguments. The admission
//! server, the controllers and the command line call the same functions.
//!
//! ```text
//!   world       what is known of the cluster, indexed; filled by watches, by files or by tests
//!   pod         a Pod under review, and the edits made to it
//!   observed_pod, pod_write  a Pod as controllers remember it, and what they change in it
//!   sidecarset  matching, injection, defaulting and validation of SidecarSets
//!   launch_priority, readiness_gate   the other mutations of a Pod
//!   podtemplate defaulting and validation of Pod templates
//!   protection  deletion protection
//!   canonical, quantity, hash, revision   bytes and names as OpenKruise makes them
//!   json_patch, field, selector, verdict  the vocabulary of answers
//! ```

pub mod canonical;
pub mod field;
pub mod hash;
pub mod json_patch;
pub mod launch_priority;
pub mod moment;
pub mod observed_pod;
pub mod pod;
pub mod pod_write;
pub mod podtemplate;
pub mod protection;
pub mod quantity;
pub mod readiness_gate;
pub mod registration;
pub mod revision;
pub mod rotation;
pub mod selector;
pub mod sidecarset;
pub mod verdict;
pub mod world;
