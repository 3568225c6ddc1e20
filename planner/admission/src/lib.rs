//! The admission server and the replicas: what they know of the cluster, and how they are registered.
//!
//! ```text
//!   world                    what is known of the cluster, indexed; filled by watches, by files or by tests
//!   pod_review               the steps of the Pod webhook in their order, each with its part of the world
//!   pod_validation           the same for requests that delete, evict or change a Pod
//!   endpoint                 the webhooks: paths, gates, and what the API server asks about
//!   registration, silence    the entries of the webhook configurations, and whether anybody calls them
//!   rotation                 certificates: when they are made anew
//!   callers                  whom the webhook paths answer
//!   pull_secrets             which pull Secrets the agent of a node gets
//! ```
//!
//! What needs several kinds at once belongs here, and so does what concerns the product itself rather than
//! users' objects.

pub mod callers;
pub mod endpoint;
pub mod metrics_access;
pub mod pod_review;
pub mod pod_validation;
pub mod pull_secrets;
pub mod registration;
pub mod rotation;
pub mod silence;
mod tokens;
pub mod world;
