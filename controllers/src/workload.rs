//! What all controllers share.
//!
//! ```text
//!   watch --> store, pods --(old, new)--> triggers --keys--> queue --> a kind's reconcile
//!               ^---- what own writes returned ---- carry_out <--------'     '--> events
//! ```

pub mod carry_out;
pub mod controller_revisions;
pub(crate) mod course;
pub mod created_pods;
mod delays;
pub mod events;
pub mod pods;
pub mod queue;
pub mod store;
pub(crate) mod triggers;
