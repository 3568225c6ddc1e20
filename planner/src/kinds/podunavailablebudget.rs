//! PodUnavailableBudgets: how many Pods of an application may be unavailable at once (spec 51).
//!
//! ```text
//!   budget   what is kept of a budget, and which of several goes first
//!   mark     a new Pod is told the name of its budget (spec 10 §7)
//! ```

pub mod budget;
pub mod mark;
