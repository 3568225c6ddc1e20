//! PodUnavailableBudgets: how many Pods of an application may be unavailable at once
//! (docs/behaviour/podunavailablebudget.md).
//!
//! ```text
//!   a Pod is created               mark        it gets the name of its budget
//!   a Pod is deleted, evicted,     check       does it need a unit, and of which budget
//!   changed or resized             reserve     the budget gives a unit, or refuses
//!   anything changed               plan        the controller counts and marks
//!                                  trigger     which budgets it reconciles
//!   a budget is written            validation  what it may say
//!   somebody asks                  explanation who uses it up, and when it gives again
//!
//!   budget, reason      whose Pods a budget is for       terms      its operations and numbers
//!   available, change   is a Pod available, what counts  record     what its status has recorded
//! ```

pub mod budget;
pub mod check;
pub mod explanation;
pub mod mark;
pub mod plan;
pub mod reason;
pub mod reserve;
pub mod terms;
pub mod trigger;
pub mod validation;

mod available;
mod change;
mod record;
#[cfg(test)]
mod tests;
