//! Keeps what is known of one kind current by a watch.

pub(crate) use cluster::follow::{Sink, follow, readable};
use cluster::watched::WatchedObject;

use super::{Kept, Store};

/// A store of what is read from each object.
pub(crate) trait Readable: Kept + Sized {
    /// Reads an object.
    ///
    /// # Errors
    /// The text is no such object.
    fn read(json: &str) -> Result<Self, serde_json::Error>;
}

impl<T: Readable> Sink for Store<T> {
    fn list_begins(&self) {
        Self::list_begins(self);
    }

    fn see(&self, object: WatchedObject) {
        match readable(&object, T::read) {
            Some(read) => self.apply(read),
            None => Sink::gone(self, &object),
        }
    }

    fn gone(&self, object: &WatchedObject) {
        self.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        Self::list_ends(self);
    }
}
