//! The admission server and the replicas: what they know of the cluster, how they are registered, which of
//! them leads. This floor calls all but [`crate::simulation`].
//!
//! ```text
//!   world                    what is known of the cluster, indexed; filled by watches, by files or by tests
//!   registration, silence    the webhook entries, and whether anybody calls them
//!   rotation                 certificates: when they are made anew
//!   election                 who leads among the replicas
//! ```

pub mod election;
pub mod registration;
pub mod rotation;
pub mod silence;
pub mod world;
