//! What all controllers share.
//!
//! ```text
//!   stores          what is watched once for all: pods, claims, controller_revisions, nodes
//!     |- finder       the workloads behind Pods, of any kind
//!     '- store        objects of one kind, found by name and group
//!   builder         what a controller watches, what wakes it, its queue
//!   controller      one reconcile of a workload of any kind, by the kind's plan
//!     |- reading      reads what has the name of an object
//!     |- executor     carries out actions; carry_out  the writes of one Pod; rehearsal  tries a change out
//!     |- children     other objects, such as ImagePullJobs; revisions  writes ControllerRevisions
//!     |- spread_slots what WorkloadSpreads say of the Pods
//!     |- budgets      what budgets of ours do not bear, and who waits for it
//!     '- memory       what was refused, and for how long
//!   batches         batches that grow
//!   owned           children of several kinds, such as the workloads of subsets
//!   limiter         how long objects rest, and how often a status is written
//!   recreate        creates ContainerRecreateRequests
//!   unconfirmed     writes that may have been carried out although no answer says so
//! ```

pub(crate) mod batches;
pub(crate) mod budgets;
pub(crate) mod builder;
pub mod carry_out;
mod children;
pub(crate) mod controller;
pub mod controller_revisions;
mod executor;
pub(crate) mod finder;
pub(crate) mod limiter;
pub(crate) mod memory;
pub(crate) mod nodes;
pub(crate) mod owned;
pub mod pods;
pub(crate) mod reading;
pub(crate) mod recreate;
mod rehearsal;
pub(crate) mod revisions;
mod spread_slots;
pub mod store;
pub mod stores;
pub(crate) mod unconfirmed;
