//! What a ControllerRevision records.
//!
//! OpenKruise's revisions hold only the fields that its Go types know. Ours hold the unknown fields too, so a
//! restore loses nothing, and carry annotation `kutter.io/whole-template`. Names and hashes are made from the
//! bytes that OpenKruise would store: a cluster is taken over, and handed back, without a new revision.

use std::sync::Arc;

use super::stored::{Author, StoredRevision};
use values::canonical::CanonicalError;
use values::hash::{fnv1_32, safe_encode};

/// The longest part of an owner's name that a revision's name begins with, in bytes.
const MAX_OWNER_NAME: usize = 223;

/// Reads the data of a stored revision, as the kind that recorded it means it.
type Read = fn(&str) -> Result<RevisionData, CanonicalError>;

/// The data of a ControllerRevision. Each kind makes it from what it records: workloads by
/// [`RevisionData::of_template`].
#[derive(Clone, Debug)]
pub struct RevisionData {
    data: Arc<str>,
    projection: Arc<str>,
    read: Read,
}

impl PartialEq for RevisionData {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data && self.projection == other.projection
    }
}

impl Eq for RevisionData {}

impl RevisionData {
    /// `data` holds every field, `projection` those that OpenKruise knows; `read` makes such data from
    /// what is stored.
    pub(crate) fn new(data: String, projection: String, read: Read) -> Self {
        Self { data: data.into(), projection: projection.into(), read }
    }

    /// What to store: compact JSON with sorted keys, every field in it.
    pub fn data(&self) -> &str {
        &self.data
    }

    /// The part of the data that OpenKruise knows.
    pub fn projection(&self) -> &str {
        &self.projection
    }

    /// The short hash, made from the bytes that OpenKruise would store.
    pub fn hash(&self, collision_count: i32) -> String {
        let digits = collision_count.to_string();
        safe_encode(&fnv1_32(self.projection.bytes().chain(digits.bytes())).to_string())
    }

    /// The name of the ControllerRevision.
    pub fn name(&self, owner: &str, collision_count: i32) -> String {
        let owner = owner.get(..MAX_OWNER_NAME).unwrap_or(owner);
        format!("{owner}-{}", self.hash(collision_count))
    }

    /// True if the stored revision means the same. Data that cannot be read means nothing.
    pub fn means_the_same_as(&self, stored: &StoredRevision) -> bool {
        let data = stored.data.get();
        data == &*self.data
            || (self.read)(data).is_ok_and(|restored| match stored.author() {
                Author::Kutter => restored.data == self.data,
                Author::OpenKruise => restored.projection == self.projection,
            })
    }
}
