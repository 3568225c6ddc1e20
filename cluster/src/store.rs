//! Objects of one kind as a watch shows them and own writes leave them: found by name and by group, and reported when
//! they change.
//!
//! ```text
//!   watch --apply, delete--.
//!                           >-- Store --(old, new)--> every subscriber
//!   own writes ---written--'      ^--- get, group ---- reconciles
//! ```
//!
//! This takes the place of the reference's expectations
//! (docs/behaviour/in-place-update.md#own-writes-and-retries). Invariants:
//! 1. An older state never takes the place of a newer one: once [`Store::written`] has taken in what a
//!    write returned, no reader sees a state from before that write, whatever the watch still has to deliver.
//! 2. What the watch has reported as gone does not come back by the late answer to a write.
//! 3. A list says what exists: it replaces everything but what was written while it was in progress, and of
//!    that what it should have shown. So the versions of an API server that was set back to an older state
//!    are believed.
//! 4. Subscribers hear of every change once, in order. They never block the store.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::kinds::ObjectMeta;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use kube::Resource;
use tokio::sync::{mpsc, watch};

use crate::follow::Sink;
use crate::watched::{Key, WatchedObject};

/// What an object is known by.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The UID.
    pub uid: &'a str,
    /// The version of this state.
    pub resource_version: &'a str,
}

impl<'a> From<&'a ObjectMeta> for Identity<'a> {
    fn from(metadata: &'a ObjectMeta) -> Self {
        Self {
            namespace: &metadata.namespace,
            name: &metadata.name,
            uid: &metadata.uid,
            resource_version: &metadata.resource_version,
        }
    }
}

impl<'a> From<&'a WatchedObject> for Identity<'a> {
    fn from(object: &'a WatchedObject) -> Self {
        let metadata = object.meta();
        Self {
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            resource_version: metadata.resource_version.as_deref().unwrap_or_default(),
        }
    }
}

/// A change of one object.
#[derive(Debug)]
pub struct Change<T> {
    /// The state before; `None` for an object that is new.
    pub old: Option<Arc<T>>,
    /// The state now; `None` for an object that is gone.
    pub new: Option<Arc<T>>,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

impl<T> Change<T> {
    /// The states that there are: the old one, the new one, or both.
    pub fn states(&self) -> impl Iterator<Item = &Arc<T>> {
        self.old.iter().chain(&self.new)
    }
}

/// The objects, and the groups that they are found by.
pub struct Store<T, G = ()> {
    state: Mutex<State<T, G>>,
    synced: watch::Sender<bool>,
}

struct State<T, G> {
    slots: Slots<T>,
    groups_of: fn(&T) -> Vec<G>,
    groups: HashMap<G, BTreeSet<u32>>,
    /// How far the list or the watch has come.
    progress: Version,
    /// While a list is in progress: what it has not shown yet, and what was written since it began.
    listing: Option<Listing>,
    subscribers: Vec<mpsc::UnboundedSender<Change<T>>>,
}

#[derive(Default)]
struct Listing {
    unseen: HashSet<u32>,
    written: HashSet<u32>,
}

/// A resource version; Kubernetes compares them as numbers. One that is no number is older than any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u64);

impl Version {
    fn of(identity: Identity<'_>) -> Self {
        Self(identity.resource_version.parse().unwrap_or_default())
    }
}

impl<T: Send + Sync> Store<T> {
    /// A store without groups. `identity` distinguishes an object and this state of it from all others.
    pub fn new(identity: fn(&T) -> Identity<'_>) -> Self {
        Self::grouped(identity, |_| Vec::new())
    }
}

impl<T: Send + Sync, G: Clone + Eq + Hash + Send> Store<T, G> {
    /// A store of objects that are found by these groups too.
    pub fn grouped(identity: fn(&T) -> Identity<'_>, groups: fn(&T) -> Vec<G>) -> Self {
        let state = State {
            slots: Slots::new(identity),
            groups_of: groups,
            groups: HashMap::new(),
            progress: Version::default(),
            listing: None,
            subscribers: Vec::new(),
        };
        Self { state: Mutex::new(state), synced: watch::Sender::new(false) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().slots.names.len()
    }

    /// An object by namespace and name.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        let state = self.lock();
        let slot = state.slots.find(&key.0, &key.1)?;
        state.slots.get(slot).cloned()
    }

    /// All objects, in no particular order.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.lock().slots.objects.iter().flatten().cloned().collect()
    }

    /// The objects of a group, in no particular order.
    pub fn group(&self, group: &G) -> Vec<Arc<T>> {
        let state = self.lock();
        let slots = state.groups.get(group).into_iter().flatten();
        slots.filter_map(|slot| state.slots.get(*slot).cloned()).collect()
    }

    /// Every change from now on, after one for each object that is there.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<Change<T>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.lock();
        for object in state.slots.objects.iter().flatten() {
            // The receiver is in our hands: it is open.
            drop(sender.send(Change { old: None, new: Some(object.clone()) }));
        }
        state.subscribers.push(sender);
        receiver
    }

    /// Waits until everything was listed once. Before that, what is missing may exist.
    pub async fn synced(&self) {
        // The sender lives as long as this store does.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Whether everything was listed once.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Takes in an object that is known to be there still, unless the watch has reported something newer.
    pub fn found(&self, object: T) {
        let mut state = self.lock();
        let (version, known) = state.slots.versions(&object);
        if known.is_none_or(|known| known < version) {
            state.take_in(Arc::new(object));
        }
    }

    /// Takes in what a write of our own returned, unless the watch has reported it or something newer.
    pub fn written(&self, object: impl Into<Arc<T>>) {
        let (object, mut state) = (object.into(), self.lock());
        let (version, known) = state.slots.versions(&object);
        let older = match known {
            Some(known) => known < version,
            // A list that is in progress may be older than the object, or may show it on a later page.
            None => state.listing.is_some() || state.progress < version,
        };
        if older {
            state.take_in(object);
        }
    }

    /// [`written`](Self::written) by a patch, which makes no object: one that is not known stays away. A watch of some
    /// objects alone does not report its end once more.
    pub fn patched(&self, object: T) {
        let mut state = self.lock();
        let (version, known) = state.slots.versions(&object);
        if known.is_some_and(|known| known < version) {
            state.take_in(Arc::new(object));
        }
    }

    /// A list begins.
    pub fn list_begins(&self) {
        let mut state = self.lock();
        let unseen = state.slots.names.iter().copied().collect();
        state.listing = Some(Listing { unseen, written: HashSet::new() });
        // An API server that was set back counts from where it is now.
        state.progress = Version::default();
    }

    /// Takes in what the list or the watch shows.
    pub fn apply(&self, object: T) {
        let mut state = self.lock();
        let (version, known) = state.slots.versions(&object);
        let slot = state.slots.slot_of(&object);
        state.progress = state.progress.max(version);
        let mut listed = state.listing.is_some();
        if let (Some(listing), Some(slot)) = (&mut state.listing, slot) {
            listing.unseen.remove(&slot);
            listed = !listing.written.contains(&slot);
        }
        let news = match known {
            None => true,
            Some(known) if listed => known != version,
            Some(known) => known < version,
        };
        if news {
            state.insert(Arc::new(object));
        }
    }

    /// Forgets an object that is not to be kept any more, or that is gone, at the version of this event.
    pub fn delete(&self, key: &Key, resource_version: &str) {
        let mut state = self.lock();
        let version = Version(resource_version.parse().unwrap_or_default());
        state.progress = state.progress.max(version);
        state.forget(key, version);
    }

    /// Takes in what the answer to a request of our own said: the object is gone that had this version. How far
    /// the watch has come it does not show.
    pub fn deleted(&self, key: &Key, resource_version: &str) {
        self.lock().forget(key, Version(resource_version.parse().unwrap_or_default()));
    }

    /// The list is complete: what it did not show is gone, unless it was written later.
    pub fn list_ends(&self) {
        let mut state = self.lock();
        if let Some(Listing { unseen, written }) = state.listing.take() {
            for slot in unseen {
                let known = state.slots.version(slot);
                // The list was made no earlier than what it shows.
                if !written.contains(&slot) || known.is_some_and(|known| known <= state.progress) {
                    state.remove(slot);
                }
            }
        }
        drop(state);
        self.synced.send_replace(true);
    }

    /// Where a watch leads whose objects are kept as `read` makes them; of which it makes nothing is as good as gone.
    pub fn sifted<R: Fn(&WatchedObject) -> Option<T> + Sync>(&self, read: R) -> impl Sink {
        FilteredStore { stored: self, read }
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, State<T, G>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leads a watch to a store that keeps what `read` makes of the objects.
struct FilteredStore<'a, T, G, R> {
    stored: &'a Store<T, G>,
    read: R,
}

impl<T, G, R> Sink for FilteredStore<'_, T, G, R>
where
    T: Send + Sync,
    G: Clone + Eq + Hash + Send,
    R: Fn(&WatchedObject) -> Option<T> + Sync,
{
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
        self.stored.delete(&object.key(), Identity::from(object).resource_version);
    }

    fn list_ends(&self) {
        self.stored.list_ends();
    }
}

impl<T, G: Clone + Eq + Hash> State<T, G> {
    /// Inserts what the watch has not reported.
    fn take_in(&mut self, object: Arc<T>) {
        let is_known = self.slots.slot_of(&object).is_some();
        let slot = self.insert(object);
        if let Some(listing) = &mut self.listing {
            listing.written.insert(slot);
            if !is_known {
                listing.unseen.insert(slot);
            }
        }
    }

    fn insert(&mut self, object: Arc<T>) -> u32 {
        let groups = (self.groups_of)(&object);
        let (slot, old) = self.slots.put(object.clone());
        let before = old.as_deref().map(self.groups_of).unwrap_or_default();
        if before != groups {
            self.leave(slot, before);
            for group in groups {
                self.groups.entry(group).or_default().insert(slot);
            }
        }
        self.notify(&Change { old, new: Some(object) });
        slot
    }

    /// Removes the object, unless it is a later one of this name, known by its creation.
    fn forget(&mut self, key: &Key, version: Version) {
        let Some(slot) = self.slots.find(&key.0, &key.1) else { return };
        if let Some(listing) = &mut self.listing {
            listing.unseen.remove(&slot);
        }
        if self.slots.version(slot).is_some_and(|known| known <= version) {
            if let Some(listing) = &mut self.listing {
                listing.written.remove(&slot);
            }
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: u32) {
        let Some(object) = self.slots.take(slot) else { return };
        self.leave(slot, (self.groups_of)(&object));
        self.notify(&Change { old: Some(object), new: None });
    }

    fn leave(&mut self, slot: u32, groups: Vec<G>) {
        for group in groups {
            if let Some(members) = self.groups.get_mut(&group) {
                members.remove(&slot);
                if members.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
    }

    fn notify(&mut self, change: &Change<T>) {
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

/// Objects by small numbers, so that a name or a member of a group of thousands costs a few bytes.
struct Slots<T> {
    identity: fn(&T) -> Identity<'_>,
    objects: Vec<Option<Arc<T>>>,
    free: Vec<u32>,
    /// The slots of objects, by namespace and name.
    names: HashTable<u32>,
    hasher: RandomState,
}

impl<T> Slots<T> {
    fn new(identity: fn(&T) -> Identity<'_>) -> Self {
        let (objects, free, names) = (Vec::new(), Vec::new(), HashTable::new());
        Self { identity, objects, free, names, hasher: RandomState::default() }
    }

    fn get(&self, slot: u32) -> Option<&Arc<T>> {
        self.objects.get(slot as usize)?.as_ref()
    }

    fn version(&self, slot: u32) -> Option<Version> {
        self.get(slot).map(|object| Version::of((self.identity)(object)))
    }

    /// The version of an object, and that of the known one of its name.
    fn versions(&self, object: &T) -> (Version, Option<Version>) {
        let known = self.slot_of(object).and_then(|slot| self.version(slot));
        (Version::of((self.identity)(object)), known)
    }

    fn slot_of(&self, object: &T) -> Option<u32> {
        let Identity { namespace, name, .. } = (self.identity)(object);
        self.find(namespace, name)
    }

    fn find(&self, namespace: &str, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one((namespace, name));
        self.names.find(hash, |slot| self.has_name(*slot, namespace, name)).copied()
    }

    fn has_name(&self, slot: u32, namespace: &str, name: &str) -> bool {
        let identity = self.get(slot).map(|object| (self.identity)(object));
        identity.is_some_and(|known| known.namespace == namespace && known.name == name)
    }

    fn hash(&self, object: &T) -> u64 {
        hash(&self.hasher, (self.identity)(object))
    }

    /// Puts an object into the slot of its name; gives the one that was there.
    fn put(&mut self, object: Arc<T>) -> (u32, Option<Arc<T>>) {
        let slot = self.slot_of(&object);
        if let Some((slot, place)) = slot.and_then(|slot| Some((slot, self.objects.get_mut(slot as usize)?)))
        {
            return (slot, place.replace(object));
        }
        let hash_of_object = self.hash(&object);
        let slot = self.add(object);
        let Self { identity, objects, names, hasher, .. } = self;
        names.insert_unique(hash_of_object, slot, |slot| {
            let object = objects.get(*slot as usize).and_then(Option::as_deref);
            object.map_or(0, |object| hash(hasher, identity(object)))
        });
        (slot, None)
    }

    fn take(&mut self, slot: u32) -> Option<Arc<T>> {
        let object = self.objects.get_mut(slot as usize)?.take()?;
        if let Ok(name) = self.names.find_entry(self.hash(&object), |known| *known == slot) {
            name.remove();
        }
        self.free.push(slot);
        Some(object)
    }

    fn add(&mut self, object: Arc<T>) -> u32 {
        if let Some(slot) = self.free.pop() {
            if let Some(place) = self.objects.get_mut(slot as usize) {
                *place = Some(object);
            }
            return slot;
        }
        self.objects.push(Some(object));
        // Four thousand million objects do not fit into memory.
        u32::try_from(self.objects.len() - 1).unwrap_or(u32::MAX)
    }
}

fn hash(hasher: &RandomState, Identity { namespace, name, .. }: Identity<'_>) -> u64 {
    hasher.hash_one((namespace, name))
}

#[cfg(test)]
mod tests;
