//! Objects of one kind as the controllers know them. They say themselves how they are known and found.

use std::hash::Hash;
use std::ops::Deref;

use cluster::events::about;
use cluster::resource::Resource;
pub use cluster::store::{Change, Identity};
use cluster::watched::{Key, WatchedObject};
use k8s_openapi::api::core::v1::ObjectReference;
use pod::observed::PodMetadata;

pub(crate) mod follow;

/// What objects of a namespace are found by whose names begin alike, before an ordinal. No UID is such a text.
pub(crate) fn named(namespace: &str, stem: &str) -> Box<str> {
    format!("{namespace}/{stem}").into()
}

/// How a cluster-scoped object is found.
pub(crate) fn key(name: &str) -> Key {
    (String::new(), name.to_owned())
}

/// What an object is known by whose metadata is read as that of Pods.
pub(crate) fn identity(metadata: &PodMetadata) -> Identity<'_> {
    let PodMetadata { namespace, name, uid, resource_version, .. } = metadata;
    Identity { namespace, name, uid, resource_version }
}

/// What can be kept in a [`Store`].
pub trait Kept: Send + Sync + 'static {
    /// What objects are found by, beside their names.
    type Group: Clone + Eq + Hash + Send;

    /// What distinguishes it and this state of it from all others.
    fn identity(&self) -> Identity<'_>;

    /// The groups that the object is in.
    fn groups(&self) -> Vec<Self::Group> {
        Vec::new()
    }

    /// The namespace; empty for a cluster-scoped object.
    fn namespace(&self) -> &str {
        self.identity().namespace
    }

    /// The name.
    fn name(&self) -> &str {
        self.identity().name
    }

    /// The identity, which a later object of this name does not have.
    fn uid(&self) -> &str {
        self.identity().uid
    }

    /// The version of this state.
    fn resource_version(&self) -> &str {
        self.identity().resource_version
    }

    /// As Events refer to it: without a version, so that those of all states are counted as one.
    fn reference(&self, of: &Resource<'_>) -> ObjectReference {
        let Identity { namespace, name, uid, .. } = self.identity();
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty()).map(str::to_owned);
        ObjectReference { namespace, ..about(of.api_version, of.kind, name, uid) }
    }

    /// Namespace and name.
    fn key(&self) -> Key {
        (self.namespace().to_owned(), self.name().to_owned())
    }
}

impl Kept for WatchedObject {
    type Group = ();

    fn identity(&self) -> Identity<'_> {
        Identity::from(self)
    }
}

/// The objects.
pub struct Store<T: Kept>(cluster::store::Store<T, T::Group>);

impl<T: Kept> Default for Store<T> {
    fn default() -> Self {
        Self(cluster::store::Store::grouped(T::identity, T::groups))
    }
}

impl<T: Kept> Store<T> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.count()
    }
}

impl<T: Kept> Deref for Store<T> {
    type Target = cluster::store::Store<T, T::Group>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
