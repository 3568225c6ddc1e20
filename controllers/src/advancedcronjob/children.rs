//! The children of AdvancedCronJobs, as they are kept.

use cluster::resource::Resource;
use kinds::advancedcronjob::children::{Child, ChildKind};

use crate::workload::owned;
use crate::workload::store::{Identity, Kept};

pub(super) type Children = owned::Children<Child>;

impl Kept for Child {
    /// The UID of the AdvancedCronJob.
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        Identity {
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }

    fn groups(&self) -> Vec<Box<str>> {
        vec![self.owner.1.clone()]
    }
}

impl owned::Child for Child {
    type Kind = ChildKind;

    fn read(kind: ChildKind, json: &str) -> Result<Option<Self>, serde_json::Error> {
        Self::read(kind, json)
    }

    fn resource(kind: ChildKind) -> Resource<'static> {
        Resource::new(kind.api_version(), kind.plural(), kind.kind())
    }

    fn is_deleting(&self) -> bool {
        self.deleting
    }
}
