//! The children of an object that are of several kinds, such as the workloads of subsets: a store for each kind. Of other
//! objects of these kinds nothing is kept.

use std::time::Duration;

use cluster::list::List;
use cluster::resource::Resource;
use cluster::triggers::forward;
use cluster::watched::Key;
use cluster::write;
use futures::future::join_all;
use kinds::workload::object_version::ObjectVersion;
use kube::Client;
use serde_json::value::RawValue;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use super::store::follow::{follow_all, readable};
use super::store::{Change, Kept, Store};
use crate::ReconcileError;

/// How long all kinds of children are waited for at the start. One that is not installed has no children, and stops no
/// others.
const TIMEOUT: Duration = Duration::from_secs(10);

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

    /// Reads those of a namespace and takes them in.
    pub(crate) async fn read_all(&self, client: &Client, namespace: &str) -> Result<(), ReconcileError> {
        let Some(text) = write::get(client, &self.resource().namespaced(namespace)).await? else {
            return Ok(());
        };
        let list: List<Box<RawValue>> =
            serde_json::from_str(&text).map_err(ReconcileError::of_object("list of children"))?;
        list.items.iter().try_for_each(|child| self.take_in(child.get()).map(drop))
    }

    /// Takes in the answer to a deletion: the object as it ends, where something holds it.
    pub(crate) fn deleted(&self, namespace: &str, observed: &ObjectVersion, answer: &str) {
        let ending = C::read(self.kind, answer).ok().flatten().filter(C::is_deleting);
        self.stored.ended(namespace, observed, ending);
    }
}

/// Waits until the children of all kinds were listed once. Those that are missing then are waited for by each object that
/// needs them.
pub(crate) async fn listed<C: Child>(children: &[Children<C>]) {
    drop(timeout(TIMEOUT, join_all(children.iter().map(|children| children.stored.synced()))).await);
}

/// Keeps children current, and sends the keys that `of_child` makes of their changes. Never returns.
pub(crate) async fn follow<C: Child, I: IntoIterator<Item = (Key, Duration)>>(
    client: &Client,
    children: &[Children<C>],
    keys: &UnboundedSender<Key>,
    of_child: impl Fn(&Change<C>) -> I,
) {
    let of_child = &of_child;
    let all = children.iter().map(|children| {
        let forward = forward(children.stored.subscribe(), keys.clone(), of_child);
        async move {
            let read = |json: &str| C::read(children.kind, json);
            let objects = children.stored.sifted(|object| readable(object, read).flatten());
            tokio::join!(follow_all(client, children.resource(), &objects), forward);
        }
    });
    join_all(all).await;
}
