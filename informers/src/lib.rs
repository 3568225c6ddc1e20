//! The cluster as admission sees it.
//!
//! ```text
//!   API server --watch--> feed --apply--> World --publish--> Index --snapshot--> webhooks
//!              <--GET---- lookup   (what is not cached, bounded in time)
//!   manifests -----------> files   (in place of an API server, for `kutter review`)
//! ```

pub mod feed;
pub mod files;
pub mod index;
pub mod lookup;

pub use index::Index;
pub use lookup::{Lookup, LookupError};
