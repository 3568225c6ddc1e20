//! ContainerRecreateRequests: containers of a running Pod are restarted without deleting the Pod
//! (docs/behaviour/restarts.md#containerrecreaterequest). The node agent restarts them; here is what continues in the
//! cluster.
//!
//! ```text
//!   a request is written       admission   what it may say, and what it takes over from its Pod (pod)
//!   time passes, things change step        the controller's next write
//! ```

pub mod admission;
pub mod step;

mod pod;
#[cfg(test)]
mod tests;
