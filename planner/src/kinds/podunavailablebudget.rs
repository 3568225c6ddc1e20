//! PodUnavailableBudgets: how many Pods of an application may be unavailable at once
//! (docs/behaviour/pod-mutation.md#podunavailablebudget-mark).
//!
//! ```text
//!   budget   what is kept of a budget, and which of several goes first
//!   mark     a new Pod is told the name of its budget
//! ```

pub mod budget;
pub mod mark;
