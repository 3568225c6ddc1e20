//! The children of an object that are of several kinds, such as the workloads of subsets: a store for each kind. Of other
//! objects of these kinds nothing is kept.

use cluster::resource::Resource;
use cluster::watched::WatchedObject;
use planner::workload::seen::Seen;

use super::store::follow::{Sink, readable};
use super::store::{Kept, Store};
use crate::ReconcileError;

/// What is kept of a child.
pub(crate) trait Child: Kept + Clone {
    /// What it is.
    type Kind: Copy + Send + Sync;

    /// Reads an object of this kind; `None` for one that is nobody's child.
    ///
    /// # Errors
    /// The text is no such object.
    fn read(kind: Self::Kind, json: &str) -> Result<Option<Self>, serde_json::Error>;

    /// How requests name the kind.
    fn resource(kind: Self::Kind) -> Resource<'static>;

    /// It is being deleted.
    fn is_deleting(&self) -> bool;
}

/// The children of one kind.
pub(crate) struct Children<C: Child> {
    pub(crate) kind: C::Kind,
    pub(crate) stored: Store<C>,
}

impl<C: Child> Children<C> {
    pub(crate) fn new(kind: C::Kind) -> Self {
        Self { kind, stored: Store::default() }
    }

    pub(crate) fn resource(&self) -> Resource<'static> {
        C::resource(self.kind)
    }

    /// Takes in what a request of ours returned; `None` for an object of somebody else.
    pub(crate) fn take_in(&self, text: &str) -> Result<Option<C>, ReconcileError> {
        let kind = self.resource().kind;
        let child = C::read(self.kind, text).map_err(ReconcileError::of_object(kind))?;
        if let Some(child) = &child {
            self.stored.written(child.clone());
        }
        Ok(child)
    }

    /// Takes in the answer to a deletion: the object as it ends, where something holds it.
    pub(crate) fn deleted(&self, namespace: &str, seen: &Seen, answer: &str) {
        match C::read(self.kind, answer).ok().flatten().filter(C::is_deleting) {
            Some(child) => self.stored.written(child),
            None => self.stored.deleted(&(namespace.to_owned(), seen.name.clone()), &seen.resource_version),
        }
    }
}

impl<C: Child> Sink for Children<C> {
    fn list_begins(&self) {
        self.stored.list_begins();
    }

    fn see(&self, object: WatchedObject) {
        match readable(&object, |json| C::read(self.kind, json)).flatten() {
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
