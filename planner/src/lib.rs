//! The decisions of Kutter: pure functions from what is wanted and what is observed to what to do.
//! No I/O, no clock, no randomness: time and random numbers come in as arguments. The admission
//! server, the controllers and the command line call the same functions.
//!
//! ```text
//!   world       what is known of the cluster, indexed; filled by watches, by files or by tests
//!   pod         a Pod under review, and the edits made to it
//!   observed_pod, pod_write  a Pod as controllers remember it, and what they change in it
//!   sidecarset  matching, injection, defaulting and validation of SidecarSets
//!   readiness_gate, launch_priority, podunavailablebudget, enhanced_liveness, pod_probe_marker
//!               the other mutations of a Pod
//!   inplace, lifecycle, kruise_pod_ready  updates of running Pods, hooks, the shared readiness gate
//!   podtemplate defaulting and validation of Pod templates
//!   protection  deletion protection
//!   simulation  the life of a CloneSet in a simulated cluster
//!   registration, silence  the webhook entries, and whether anybody calls them
//!   canonical, quantity, hash, revision   bytes and names as OpenKruise makes them
//!   election    who leads among the replicas
//!   pause       how long to wait after failures
//!   json_patch, field, selector, verdict  the vocabulary of answers
//! ```

pub mod canonical;
pub mod cloneset;
pub mod election;
mod enhanced_liveness;
pub mod event;
pub mod field;
pub mod hash;
pub mod image_predownload;
pub mod image_reference;
pub mod inplace;
pub mod json;
pub mod json_patch;
pub mod kruise_pod_ready;
pub mod launch_priority;
pub mod lifecycle;
pub mod moment;
pub mod observed_pod;
pub mod pause;
pub mod percent;
pub mod pod;
pub mod pod_probe_marker;
pub mod pod_write;
pub mod podtemplate;
pub mod podunavailablebudget;
pub mod protection;
pub mod quantity;
pub mod readiness_gate;
pub mod registration;
pub mod revision;
pub mod rotation;
pub mod selector;
pub mod server_version;
pub mod sidecar_terminator;
pub mod sidecarset;
pub mod silence;
pub mod simulation;
pub mod update_order;
pub mod verdict;
pub mod world;
