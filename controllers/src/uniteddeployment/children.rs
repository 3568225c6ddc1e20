//! The workloads of subsets, as they are kept.

use cluster::resource::Resource;
use kinds::uniteddeployment::children::{Child, ChildKind};

use crate::workload::owned;
use crate::workload::store::{Identity, Kept, named};

pub(super) type Children = owned::Children<Child>;

/// What workloads of subsets are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// The UID of the UnitedDeployment.
    Owner(Box<str>),
    /// The namespace, for those that nobody manages.
    Orphans(Box<str>),
    /// Namespace and subset.
    Subset(Box<str>),
}

impl Kept for Child {
    type Group = Group;

    fn identity(&self) -> Identity<'_> {
        Identity {
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }

    fn groups(&self) -> Vec<Group> {
        let owner = match &self.owner {
            Some((_, uid)) => Group::Owner(uid.clone()),
            None => Group::Orphans(self.namespace.clone()),
        };
        vec![owner, Group::Subset(named(&self.namespace, &self.subset))]
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
