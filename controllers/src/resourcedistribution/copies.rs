//! The Secrets and ConfigMaps that belong to ResourceDistributions, as a watch of their metadata reports them.

use std::time::Duration;

use cluster::triggers::forward;
use cluster::watched::{Key, WatchedObject};
use kinds::resourcedistribution::copy::Copy;
use kinds::resourcedistribution::resource::ResourceKind;
use tokio::sync::mpsc::UnboundedSender;

use super::{Controller, Group};
use crate::workload::store::follow::{Sink, readable};
use crate::workload::store::{Change, Identity, Kept};

impl Kept for Copy {
    /// The UID of the ResourceDistribution.
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
        self.owner.iter().cloned().collect()
    }
}

/// Where the watch of one kind leads. Of the objects of others nothing is kept.
pub(super) struct Copies<'a> {
    pub(super) kind: ResourceKind,
    pub(super) controller: &'a Controller,
    pub(super) names: UnboundedSender<Box<str>>,
}

impl Copies<'_> {
    /// Queues the ResourceDistributions whose copies change. Ends with the queue.
    pub(super) async fn forward(&self) {
        let changes = self.controller.copies(self.kind).subscribe();
        forward(changes, self.names.clone(), |change| self.of_copy(change)).await;
    }

    /// The ResourceDistributions of this resource, but for those that made the change.
    pub(super) fn of_copy(&self, change: &Change<Copy>) -> Vec<(Box<str>, Duration)> {
        let Some(copy) = change.states().next() else { return Vec::new() };
        let memory = &self.controller.memory;
        let mut concerned = self.controller.distributions.group(&Group::Of(self.kind, copy.name.clone()));
        concerned.retain(|distribution| {
            !change.new.as_ref().is_some_and(|new| memory.is_equal(&distribution.name, new))
        });
        concerned.iter().map(|distribution| (distribution.name.as_str().into(), Duration::ZERO)).collect()
    }

    /// An object is gone that blocked a copy.
    fn made_way(&self, (namespace, name): &Key) {
        for distribution in self.controller.distributions.group(&Group::Of(self.kind, name.as_str().into())) {
            if self.controller.memory.made_way(&distribution.name, namespace) {
                // The receiver ends with the controller.
                drop(self.names.send(distribution.name.as_str().into()));
            }
        }
    }
}

impl Sink for Copies<'_> {
    fn list_begins(&self) {
        self.controller.copies(self.kind).list_begins();
    }

    fn see(&self, object: WatchedObject) {
        let copies = self.controller.copies(self.kind);
        match readable(&object, Copy::read).filter(|copy| copy.owner.is_some()) {
            Some(copy) => copies.apply(copy),
            None => copies.delete(&object.key(), object.resource_version()),
        }
    }

    fn gone(&self, object: &WatchedObject) {
        let key = object.key();
        self.controller.copies(self.kind).delete(&key, object.resource_version());
        self.made_way(&key);
    }

    fn list_ends(&self) {
        self.controller.copies(self.kind).list_ends();
    }
}
