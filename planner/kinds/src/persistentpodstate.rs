//! PersistentPodState: remembers on which node each Pod of a workload last ran ready, and steers the next Pod of that
//! name back there or into the same topology (docs/behaviour/persistentpodstate.md).
//!
//! ```text
//!   admission of a Pod      state: what is known --> injection
//!   the controller          plan: what is remembered         generation: objects that workloads ask for
//!                           trigger: what a change concerns
//!   an object itself        validation
//!   workloads               which workloads may be meant, those of listed kinds among them
//! ```
//!
//! A running Pod is never moved.

pub mod generation;
pub mod injection;
pub mod plan;
pub mod state;
pub mod trigger;
pub mod validation;
pub mod workloads;
