//! EphemeralJobs: ephemeral containers are added to many running Pods, a few at a time, and followed to their end
//! (docs/behaviour/restarts.md#ephemeraljob).
//!
//! ```text
//!   a job is written               validation  what it may say
//!   something changes              trigger     which jobs are reconciled
//!                                  step        what is due: a write to the job, or work on its Pods
//!                                  work        the Pods: how far each is (state), and which comes next
//!                                  status      what the job's status says
//! ```

pub mod step;
pub mod trigger;
pub mod validation;

mod state;
mod status;
mod work;

#[cfg(test)]
mod tests;
