//! Values and texts that know no object of the cluster: JSON and patches, the bytes and hashes that
//! OpenKruise makes, quantities, percentages, selectors, field paths, times. This floor calls no other.

pub mod backoff;
pub mod canonical;
pub mod field;
pub mod hash;
pub mod image_reference;
pub mod json;
pub mod json_patch;
pub mod moment;
pub mod percent;
pub mod quantity;
pub mod recent;
pub mod selector;
pub mod server_version;
pub mod verdict;
