//! WorkloadSpread: divides the Pods of a workload over subsets of nodes, in their order and up to a maximum for each.
//!
//! ```text
//!   admission of a Pod      matching --> ordinal or slots  --> injection      step: all of it
//!   its deletion            deletion --> slots
//!   the controller          plan: adoption, cost, status
//!   an object itself        validation
//! ```
//!
//! Quotas hold whatever the number of replicas of the server: slots are taken from the status by
//! compare-and-swap ([`slots`], [`values::reservation`]).

mod adoption;
mod cost;
pub mod custom;
pub mod deletion;
pub mod explanation;
mod injection;
pub mod matching;
mod member;
mod ordinal;
pub mod plan;
mod record;
pub mod slots;
pub mod spread;
pub mod spreads;
mod status;
pub mod step;
pub mod trigger;
pub mod validation;
pub mod version;

pub use adoption::Candidate;
