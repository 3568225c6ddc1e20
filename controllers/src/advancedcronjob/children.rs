//! The children of AdvancedCronJobs, of one kind. Of other objects of that kind nothing is kept.

use cluster::resource::Resource;
use cluster::watched::WatchedObject;
use planner::kinds::advancedcronjob::children::{Child, ChildKind};
use planner::workload::seen::Seen;

use crate::ReconcileError;
use crate::workload::store::follow::{Sink, readable};
use crate::workload::store::{Identity, Kept, Store};

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

/// Where the watch of one kind leads.
pub(super) struct Children {
    pub(super) kind: ChildKind,
    pub(super) stored: Store<Child>,
}

impl Children {
    pub(super) fn new(kind: ChildKind) -> Self {
        Self { kind, stored: Store::default() }
    }

    pub(super) fn resource(&self) -> Resource<'static> {
        Resource::new(self.kind.api_version(), self.kind.plural(), self.kind.kind())
    }

    /// Takes in what a request of ours returned; `None` for an object of somebody else.
    pub(super) fn take_in(&self, text: &str) -> Result<Option<Child>, ReconcileError> {
        let child = Child::read(self.kind, text).map_err(ReconcileError::of_object(self.kind.kind()))?;
        if let Some(child) = &child {
            self.stored.written(child.clone());
        }
        Ok(child)
    }

    /// Takes in the answer to a deletion: the object as it ends, where something holds it.
    pub(super) fn deleted(&self, namespace: &str, seen: &Seen, answer: &str) {
        match Child::read(self.kind, answer).ok().flatten().filter(|child| child.deleting) {
            Some(child) => self.stored.written(child),
            None => self.stored.deleted(&(namespace.to_owned(), seen.name.clone()), &seen.resource_version),
        }
    }
}

impl Sink for Children {
    fn list_begins(&self) {
        self.stored.list_begins();
    }

    fn see(&self, object: WatchedObject) {
        match readable(&object, |json| Child::read(self.kind, json)).flatten() {
            Some(child) => self.stored.apply(child),
            None => self.stored.delete(&object.key(), object.resource_version()),
        }
    }

    fn gone(&self, object: &WatchedObject) {
        self.stored.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        self.stored.list_ends();
    }
}
