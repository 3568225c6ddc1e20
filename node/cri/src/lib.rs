//! The Container Runtime Interface, version `v1`: what the agent of a node asks of containerd, CRI-O and others.
//!
//! ```text
//!   endpoint   which sockets of the node belong to a runtime
//!   runtime    the calls, bounded in time and size
//!   messages   what the calls carry: those of their fields that are used here
//!   error      why a call failed
//! ```
//!
//! A call that is dropped is cancelled in the runtime too.

pub mod endpoint;
pub mod error;
pub mod messages;
pub mod runtime;

pub use endpoint::detect;
pub use error::CriError;
pub use runtime::Runtime;
