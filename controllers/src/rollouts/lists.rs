//! Lists that are kept current, each by a watch of its own, and what changes in them.
//!
//! A list stays for good, or as long as somebody reads it. What our own writes return is taken into every list that has the
//! object: no plan is made on less than what the writes before it did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::follow::{follow, readable};
use cluster::resource::Resource;
use cluster::watched::Key;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use rollouts::object::{Object as _, ObjectName};
use rollouts::view::ListName;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use values::selector::Selector;
use values::served::Served;

use super::held::{self, Held};
use crate::workload::store::{Change, Kept, Store};

/// Who reads a list: a controller, for one of its objects.
pub(super) type Reader = (&'static str, Key);

/// A change of an object of a list.
#[derive(Clone)]
pub(super) struct News {
    /// The list.
    pub(super) list: Arc<ListName>,
    /// What has changed.
    pub(super) change: Change<Held>,
}

impl News {
    /// The list is one of this kind, in whatever version.
    pub(super) fn is_of(&self, api_version: &str, kind: &str) -> bool {
        let group = rollouts::object::group;
        self.list.kind == kind && group(&self.list.api_version) == group(api_version)
    }

    /// Namespace and name of the object.
    pub(super) fn key(&self) -> Option<Key> {
        self.change.states().next().map(|held| held.key())
    }
}

/// The lists.
#[derive(Default)]
pub(super) struct Lists(Mutex<State>);

#[derive(Default)]
struct State {
    followed: BTreeMap<Arc<ListName>, Followed>,
    read: BTreeMap<Reader, BTreeSet<Arc<ListName>>>,
    subscribers: Vec<UnboundedSender<News>>,
}

/// A list.
struct Followed {
    stored: Arc<Store<Held>>,
    /// Which labels its objects have; `None` where that is not understood.
    selector: Option<Selector>,
    /// It stays for good.
    stays: bool,
    readers: BTreeSet<Reader>,
    /// The watch, which ends with this.
    _watch: JoinSet<()>,
}

impl Lists {
    /// Every change from now on, of all lists.
    pub(super) fn subscribe(&self) -> UnboundedReceiver<News> {
        let (sender, receiver) = unbounded_channel();
        self.lock().subscribers.push(sender);
        receiver
    }

    /// How many objects there are in all lists.
    pub(super) fn len(&self) -> usize {
        self.lock().followed.values().map(|followed| followed.stored.len()).sum()
    }

    /// Keeps a list current for good.
    pub(super) fn follow(&self, client: &Client, name: ListName, served: &Served) {
        self.lock().follow(client, name, served).stays = true;
    }

    /// The store of a list, which is kept current as long as `reader` does not leave.
    pub(super) fn read(
        &self,
        client: &Client,
        name: &ListName,
        served: &Served,
        reader: &Reader,
    ) -> Arc<Store<Held>> {
        let mut state = self.lock();
        let followed = state.follow(client, name.clone(), served);
        followed.readers.insert(reader.clone());
        let stored = followed.stored.clone();
        state.read.entry(reader.clone()).or_default().insert(Arc::new(name.clone()));
        stored
    }

    /// This reader reads no list any more. Those that nobody reads are dropped.
    pub(super) fn leave(&self, reader: &Reader) {
        let mut state = self.lock();
        for name in state.read.remove(reader).into_iter().flatten() {
            let Some(followed) = state.followed.get_mut(&name) else { continue };
            followed.readers.remove(reader);
            if followed.readers.is_empty() && !followed.stays {
                state.followed.remove(&name);
            }
        }
    }

    /// The objects for which a controller reads a list.
    pub(super) fn readers(&self, controller: &str, name: &ListName) -> Vec<Key> {
        let state = self.lock();
        let readers = state.followed.get(name).into_iter().flat_map(|followed| &followed.readers);
        readers.filter(|(reader, _)| *reader == controller).map(|(_, key)| key.clone()).collect()
    }

    /// The store of a list that is kept current.
    pub(super) fn stored(&self, name: &ListName) -> Option<Arc<Store<Held>>> {
        self.lock().followed.get(name).map(|followed| followed.stored.clone())
    }

    /// An object as some list has it: `Some(None)` where a list of all objects has none of this name, `None` where no
    /// list can say.
    pub(super) fn find(&self, name: &ObjectName) -> Option<Option<Arc<Held>>> {
        let (state, key) = (self.lock(), (name.namespace.clone(), name.name.clone()));
        let mut is_complete = false;
        for followed in state.with(name).into_iter().filter(|followed| followed.stored.is_synced()) {
            if let Some(held) = followed.stored.get(&key) {
                return Some(Some(held));
            }
            is_complete |= followed.selector.as_ref().is_some_and(Selector::is_empty);
        }
        is_complete.then_some(None)
    }

    /// Takes in an object as a request of ours has returned it.
    pub(super) fn take_in(&self, name: &ObjectName, object: &Value) {
        let state = self.lock();
        let held = Arc::new(Held::new(object));
        for followed in state.with(name) {
            if followed.selector.as_ref().is_some_and(|selector| selector.matches(object)) {
                followed.stored.written(held.clone());
            } else {
                followed.stored.deleted(&held.key(), object.resource_version());
            }
        }
    }

    /// Takes in that a request of ours has found no object of this name, or has taken it away.
    pub(super) fn gone(&self, name: &ObjectName) {
        let (state, key) = (self.lock(), (name.namespace.clone(), name.name.clone()));
        for followed in state.with(name) {
            if let Some(known) = followed.stored.get(&key) {
                followed.stored.deleted(&key, known.resource_version());
            }
        }
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The list of this name, which is kept current from now on.
    fn follow(&mut self, client: &Client, name: ListName, served: &Served) -> &mut Followed {
        let name = Arc::new(name);
        let subscribers = &self.subscribers;
        self.followed.entry(name.clone()).or_insert_with(|| {
            let stored = Arc::new(Store::default());
            let mut watch = JoinSet::new();
            watch.spawn(keep_current(
                client.clone(),
                name.clone(),
                served.clone(),
                stored.clone(),
                subscribers.clone(),
            ));
            let selector = Selector::parse(&name.selector).ok();
            Followed { stored, selector, stays: false, readers: BTreeSet::new(), _watch: watch }
        })
    }

    /// The lists that may have an object of this kind and namespace.
    fn with(&self, name: &ObjectName) -> Vec<&Followed> {
        let of_kind = self.followed.iter().filter(|(list, _)| {
            list.kind == name.kind
                && list.api_version == name.api_version
                && (list.namespace.is_empty() || list.namespace == name.namespace)
        });
        of_kind.map(|(_, followed)| followed).collect()
    }
}

/// Watches a list, and tells the subscribers what changes in it. Never returns.
async fn keep_current(
    client: Client,
    name: Arc<ListName>,
    served: Served,
    stored: Arc<Store<Held>>,
    subscribers: Vec<UnboundedSender<News>>,
) {
    let resource = Resource::new(&served.api_version, &served.plural, &name.kind).api_resource();
    let api = match name.namespace.as_str() {
        "" => Api::all_with(client, &resource),
        namespace => Api::namespaced_with(client, namespace, &resource),
    };
    let mut config = Config::default();
    if !name.selector.is_empty() {
        config = config.labels(&name.selector);
    }
    let kind = (name.api_version.as_str(), name.kind.as_str());
    let read = |json: &str| held::read(kind, json).map(|object| Held::new(&object));
    let sink = stored.sifted(|object| readable(object, read));
    let mut changes = stored.subscribe();
    let tell = async {
        while let Some(change) = changes.recv().await {
            let news = News { list: name.clone(), change };
            // A controller that has ended starts again with all others.
            subscribers.iter().for_each(|subscriber| drop(subscriber.send(news.clone())));
        }
    };
    tokio::join!(follow(api, config, &sink), tell);
}
