//! Keeps what is known of one kind current: by a watch, and by what our own writes return.

use api::kinds::Object;
use cluster::ApiError;
pub(crate) use cluster::follow::{Sink, follow, follow_all, readable};
use cluster::watched::WatchedObject;
use cluster::write::unless_outdated;
use kinds::workload::seen::Seen;
use serde::de::DeserializeOwned;

use super::{Identity, Kept, Store};
use crate::ReconcileError;

/// A store of what is read from each object.
pub(crate) trait Readable: Kept + Sized {
    /// Reads an object.
    ///
    /// # Errors
    /// The text is no such object.
    fn read(json: &str) -> Result<Self, serde_json::Error>;
}

/// An object that is kept as it is, and found by its namespace.
pub(crate) trait Whole: DeserializeOwned + Send + Sync + 'static {}

impl<Spec, Status> Kept for Object<Spec, Status>
where
    Self: Whole,
{
    /// The namespace.
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        Identity::from(&self.metadata)
    }

    fn groups(&self) -> Vec<Box<str>> {
        vec![self.namespace().into()]
    }
}

impl<Spec, Status> Readable for Object<Spec, Status>
where
    Self: Whole,
{
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

/// Leads a watch to a store that keeps what `read` makes of the objects.
pub(crate) struct Sifted<'a, T: Kept, R> {
    stored: &'a Store<T>,
    read: R,
}

impl<T: Kept> Store<T> {
    /// Where a watch leads whose objects are kept as `read` makes them; of which it makes nothing is as good as gone.
    pub(crate) fn sifted<R: Fn(&WatchedObject) -> Option<T> + Sync>(&self, read: R) -> Sifted<'_, T, R> {
        Sifted { stored: self, read }
    }

    /// Takes in the answer to a write of ours to an object of this kind; false where that is gone or in another state.
    ///
    /// # Errors
    /// The API server refuses for another reason, can't be reached, or answers with something else.
    pub(crate) fn take_in(
        &self,
        kind: &'static str,
        answer: Result<String, ApiError>,
    ) -> Result<bool, ReconcileError>
    where
        T: Readable,
    {
        let Some(text) = unless_outdated(answer)? else { return Ok(false) };
        self.written(T::read(&text).map_err(ReconcileError::of_object(kind))?);
        Ok(true)
    }

    /// Takes in the answer to a deletion of ours: the object as it ends where something holds it, else it is gone.
    pub(crate) fn ended(&self, namespace: &str, seen: &Seen, ending: Option<T>) {
        match ending {
            Some(ending) => self.written(ending),
            None => self.deleted(&(namespace.to_owned(), seen.name.clone()), &seen.resource_version),
        }
    }
}

impl<T: Kept, R: Fn(&WatchedObject) -> Option<T> + Sync> Sink for Sifted<'_, T, R> {
    fn list_begins(&self) {
        self.stored.list_begins();
    }

    fn see(&self, object: WatchedObject) {
        match (self.read)(&object) {
            Some(read) => self.stored.apply(read),
            None => self.gone(&object),
        }
    }

    fn gone(&self, object: &WatchedObject) {
        self.stored.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        self.stored.list_ends();
    }
}

impl<T: Readable> Sink for Store<T> {
    fn list_begins(&self) {
        Self::list_begins(self);
    }

    fn see(&self, object: WatchedObject) {
        self.sifted(|object| readable(object, T::read)).see(object);
    }

    fn gone(&self, object: &WatchedObject) {
        self.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        Self::list_ends(self);
    }
}
