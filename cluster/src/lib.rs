//! The only way from Kutter to the API server: clients, watches, leases, events and writes.
//!
//! ```text
//!   API server --watch--> follow    to where objects are kept: store
//!              <--GET---- list, discovery
//!              <--Lease-- election (who runs the controllers)
//!              <--Event-- events
//!              <--PATCH-- reservation (units of a status that many requests want at once)
//!
//!   queue    which key is worked on when; triggers  the keys of changes; delays  keys that are due later
//!   event_sender  Events that are written beside the work that they report
//!   https    one request to whom it may concern: our own server, a container
//! ```
//!
//! A client's worker lives on the runtime that made it: make one client per runtime.

pub mod cache_sizes;
pub mod client;
pub mod delays;
pub mod discovery;
pub mod election;
pub mod error;
pub mod event_sender;
pub mod events;
pub mod follow;
pub mod https;
pub mod list;
pub mod panics;
pub mod queue;
pub mod requests;
pub mod reservation;
pub mod resource;
pub mod store;
pub mod triggers;
pub mod watch_failures;
pub mod watch_pauses;
pub mod watched;
pub mod write;

pub use error::{ApiError, ErrorReason, Retry};
pub use resource::Resource;
