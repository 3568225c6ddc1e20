//! Values and texts that know no object of the cluster.
//!
//! ```text
//!   json, field                JSON that keeps what it does not know, and paths of fields for errors
//!   read                       objects that are read, or the path of what can't be
//!   any_case                   JSON whose keys are in any case
//!   json_patch                 patches, made and applied
//!   strategic_merge            Kubernetes' own patches, applied
//!   canonical, hash            the bytes and hashes that OpenKruise makes of the same objects
//!   quantity, percent          amounts and shares as Kubernetes writes them
//!   selector, image_reference  label selectors and image names, parsed
//!   moment, backoff            time and chance of a decision, delays between attempts
//!   verdict                    the answer of an admission review
//!   server_version, served     what the API server can do, and where it serves a kind
//!   election                   who leads, by a Lease
//!   reservation                units of a status that many requests want at once
//!   event                      what an Event reports
//!   segment                    secret segments of paths
//!   short                      texts of others, cut
//! ```
//!
//! What belongs here could serve any program that talks to Kubernetes. What needs a Pod, or any other object,
//! belongs to another crate.

pub mod any_case;
pub mod backoff;
pub mod canonical;
pub mod election;
pub mod event;
pub mod field;
pub mod hash;
pub mod image_reference;
pub mod json;
pub mod json_patch;
pub mod merge_patch;
pub mod moment;
pub mod percent;
pub mod quantity;
pub mod read;
pub mod recent;
pub mod reservation;
pub mod segment;
pub mod selector;
pub mod served;
pub mod server_version;
pub mod short;
pub mod strategic_merge;
pub mod verdict;
