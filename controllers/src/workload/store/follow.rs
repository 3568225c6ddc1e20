//! Keeps what is known of one kind current: by a watch, and by what our own writes return.

use std::sync::Arc;

use api::kinds::{Object, ObjectMeta};
use cluster::ApiError;
pub(crate) use cluster::follow::{Sink, follow, follow_all, readable};
use cluster::resource::Resource;
use cluster::watched::{Key, WatchedObject};
use cluster::write::{self, unless_outdated};
use kinds::workload::object_version::ObjectVersion;
use kube::Client;
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

    /// Whether it is kept: what is not, is as good as gone.
    fn is_kept(&self) -> bool {
        true
    }

    /// Whether nothing holds an object any more that is being deleted: an answer to a write shows it as it was at last.
    fn is_gone(&self) -> bool {
        false
    }
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

    fn is_gone(&self) -> bool {
        is_gone(&self.metadata)
    }
}

/// Whether this is an object that is being deleted, and that nothing holds any more.
pub(crate) fn is_gone(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.is_empty()
}

impl<T: Kept> Store<T> {
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
        let object = T::read(&text).map_err(ReconcileError::of_object(kind))?;
        if object.is_gone() {
            self.deleted(&object.key(), object.resource_version());
        } else {
            self.written(object);
        }
        Ok(true)
    }

    /// Reads an object and takes it in, or that there is none.
    ///
    /// # Errors
    /// The API server refuses, can't be reached, or answers with something else.
    pub(crate) async fn read(
        &self,
        client: &Client,
        resource: &Resource<'static>,
        key: &Key,
    ) -> Result<Option<Arc<T>>, ReconcileError>
    where
        T: Readable,
    {
        // The version before: what comes into being meanwhile is younger.
        let known = self.get(key);
        let text = write::get(client, &resource.namespaced(&key.0).name(&key.1)).await?;
        let read = text.map(|text| T::read(&text)).transpose();
        let read = read.map_err(ReconcileError::of_object(resource.kind))?.map(Arc::new);
        match &read {
            Some(read) => self.written(read.clone()),
            None => known.iter().for_each(|known| self.deleted(key, known.resource_version())),
        }
        Ok(read)
    }

    /// Takes in the answer to a deletion of ours: the object as it ends where something holds it, else it is gone.
    pub(crate) fn ended(&self, namespace: &str, observed: &ObjectVersion, ending: Option<T>) {
        match ending {
            Some(ending) => self.written(ending),
            None => self.deleted(&(namespace.to_owned(), observed.name.clone()), &observed.resource_version),
        }
    }
}

impl<T: Readable> Sink for Store<T> {
    fn list_begins(&self) {
        self.0.list_begins();
    }

    fn see(&self, object: WatchedObject) {
        self.sifted(|object| readable(object, T::read).filter(T::is_kept)).see(object);
    }

    fn gone(&self, object: &WatchedObject) {
        self.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        self.0.list_ends();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::kinds::ephemeraljob::EphemeralJob;
    use serde_json::json;

    #[test]
    fn an_answer_that_shows_an_object_without_its_last_finalizer_takes_it_away() {
        let store: Store<EphemeralJob> = Store::default();
        for (version, finalizers, is_there) in
            [("1", vec!["a", "b"], true), ("2", vec!["b"], true), ("3", vec![], false)]
        {
            let metadata = json!({"namespace": "shop", "name": "a", "uid": "u", "resourceVersion": version,
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers});
            assert!(store.take_in("EphemeralJob", Ok(json!({"metadata": metadata}).to_string())).unwrap());
            assert_eq!(store.get(&("shop".to_owned(), "a".to_owned())).is_some(), is_there, "{version}");
        }
    }
}
