//! What the agent of one node decides.
//!
//! ```text
//!   tasks     which pulls to start and to stop, and what the status of the NodeImage says
//!   pull      one pull: what is asked for, how often and for how long
//!   keyring   which credentials of which pull Secrets fit an image
//! ```

pub mod keyring;
pub mod pull;
pub mod tasks;
