//! How ControllerRevisions are found.

use api::labels::SIDECARSET_NAME;
use kinds::workload::revision::StoredRevision;

use crate::workload::store::follow::Readable;
use crate::workload::store::{Identity, Kept};

/// What ControllerRevisions are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// The name of the SidecarSet in their label.
    SidecarSet(Box<str>),
    /// The UID of the owner that manages them.
    Owner(Box<str>),
    /// The namespace, for those that nobody manages.
    Orphans(Box<str>),
}

impl Kept for StoredRevision {
    type Group = Group;

    fn identity(&self) -> Identity<'_> {
        Identity::from(&self.metadata)
    }

    fn groups(&self) -> Vec<Group> {
        let set =
            self.metadata.labels.get(SIDECARSET_NAME).map(|name| Group::SidecarSet(name.as_str().into()));
        let owner = match self.metadata.controller() {
            Some(owner) => Group::Owner(owner.uid.as_str().into()),
            None => Group::Orphans(self.metadata.namespace.as_str().into()),
        };
        set.into_iter().chain([owner]).collect()
    }
}

impl Readable for StoredRevision {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}
