//! The only way from Kutter to the API server: clients, watches, leases, events and writes.
//!
//! ```text
//!   API server --watch--> feed --apply--> World --publish--> Index --snapshot--> webhooks
//!              <--GET---- lookup   (what is not cached, bounded in time)
//!              <--Lease-- election (who runs the controllers)
//!              <--Event-- events
//!              <--PATCH-- reservation (units of a status that many requests want at once)
//!
//!   follow   leads a watch to where its objects are kept
//!   queue    which key is worked on when; triggers  the keys of changes; delays  keys that are due later
//!   teller   Events, written beside the work that they tell of
//! ```
//!
//! A client's worker lives on the runtime that made it: make one client per runtime.

pub mod cache_sizes;
pub mod client;
pub mod delays;
pub mod discovery;
pub mod election;
pub mod error;
pub mod events;
pub mod feed;
pub mod files;
pub mod follow;
pub mod index;
pub mod list;
pub mod lookup;
pub mod panics;
pub mod queue;
pub mod requests;
pub mod reservation;
pub mod resource;
pub mod teller;
pub mod triggers;
pub mod watch_failures;
pub mod watched;
pub mod write;

pub use error::{ApiError, ErrorReason, Retry};
pub use index::Index;
pub use lookup::{Lookup, LookupError};
pub use resource::Resource;
