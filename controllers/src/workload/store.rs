//! Objects of one kind as the controllers know them: found by name and by group, and told of when they
//! change.
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
//!    write returned, no reader sees a state from before that write, whatever the watch still has to tell.
//! 2. What the watch has told to be gone does not come back by the late answer to a write.
//! 3. A list tells what exists: it replaces everything but what was written while it was under way, and of
//!    that what it should have shown. So the versions of an API server that was set back to an older state
//!    are believed.
//! 4. Subscribers hear of every change once, in order. They never block the store.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::kinds::ObjectMeta;
use cluster::watched::{Key, WatchedObject};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use kube::Resource;
use pod::observed::PodMetadata;
use tokio::sync::{mpsc, watch};

pub(crate) mod follow;

/// What objects of a namespace are found by whose names begin alike, before an ordinal. No UID is such a text.
pub(crate) fn named(namespace: &str, stem: &str) -> Box<str> {
    format!("{namespace}/{stem}").into()
}

/// How a cluster-scoped object is found.
pub(crate) fn key(name: &str) -> Key {
    (String::new(), name.to_owned())
}

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

impl<'a> From<&'a PodMetadata> for Identity<'a> {
    fn from(metadata: &'a PodMetadata) -> Self {
        Self {
            namespace: &metadata.namespace,
            name: &metadata.name,
            uid: &metadata.uid,
            resource_version: &metadata.resource_version,
        }
    }
}

/// What can be kept in a [`Store`].
pub trait Kept: Send + Sync + 'static {
    /// What objects are found by, beside their names.
    type Group: Clone + Eq + Hash + Send;

    /// What tells it and this state of it from all others.
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

    /// Namespace and name.
    fn key(&self) -> Key {
        (self.namespace().to_owned(), self.name().to_owned())
    }
}

impl Kept for WatchedObject {
    type Group = ();

    fn identity(&self) -> Identity<'_> {
        Identity {
            namespace: self.meta().namespace.as_deref().unwrap_or_default(),
            name: self.meta().name.as_deref().unwrap_or_default(),
            uid: self.meta().uid.as_deref().unwrap_or_default(),
            resource_version: self.meta().resource_version.as_deref().unwrap_or_default(),
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

/// The objects.
pub struct Store<T: Kept> {
    state: Mutex<State<T>>,
    synced: watch::Sender<bool>,
}

struct State<T: Kept> {
    slots: Slots<T>,
    groups: HashMap<T::Group, BTreeSet<u32>>,
    /// How far the list or the watch has come.
    progress: Version,
    /// While a list is under way: what it has not shown yet, and what was written since it began.
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
    fn of(object: &impl Kept) -> Self {
        Self(object.resource_version().parse().unwrap_or_default())
    }
}

impl<T: Kept> Default for Store<T> {
    fn default() -> Self {
        let state = State {
            slots: Slots::default(),
            groups: HashMap::new(),
            progress: Version::default(),
            listing: None,
            subscribers: Vec::new(),
        };
        Self { state: Mutex::new(state), synced: watch::Sender::new(false) }
    }
}

impl<T: Kept> Store<T> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().slots.names.len()
    }

    /// An object by namespace and name.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        let state = self.lock();
        let slot = state.slots.find(&key.0, &key.1)?;
        state.slots.get(slot).cloned()
    }

    /// All objects, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.lock().slots.objects.iter().flatten().cloned().collect()
    }

    /// The objects of a group, in no particular order.
    pub fn group(&self, group: &T::Group) -> Vec<Arc<T>> {
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
    pub(crate) fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Takes in an object that is known to be there still, unless the watch has told of something newer.
    pub(crate) fn found(&self, object: T) {
        let mut state = self.lock();
        let known =
            state.slots.find(object.namespace(), object.name()).and_then(|slot| state.slots.get(slot));
        if known.is_none_or(|known| Version::of(&**known) < Version::of(&object)) {
            state.take_in(object);
        }
    }

    /// Takes in what a write of our own returned, unless the watch has told of it or of something newer.
    pub fn written(&self, object: T) {
        let mut state = self.lock();
        let version = Version::of(&object);
        let known = state.slots.find(object.namespace(), object.name());
        let older = match known.and_then(|slot| state.slots.get(slot)) {
            Some(known) => Version::of(&**known) < version,
            // A list that is under way may be older than the object, or may show it on a later page.
            None => state.listing.is_some() || state.progress < version,
        };
        if older {
            state.take_in(object);
        }
    }

    /// A list begins.
    pub(crate) fn list_begins(&self) {
        let mut state = self.lock();
        let unseen = state.slots.names.iter().copied().collect();
        state.listing = Some(Listing { unseen, written: HashSet::new() });
        // An API server that was set back counts from where it is now.
        state.progress = Version::default();
    }

    /// Takes in what the list or the watch shows.
    pub(crate) fn apply(&self, object: T) {
        let mut state = self.lock();
        let version = Version::of(&object);
        let known = state.slots.find(object.namespace(), object.name());
        state.progress = state.progress.max(version);
        let mut listed = state.listing.is_some();
        if let (Some(listing), Some(slot)) = (&mut state.listing, known) {
            listing.unseen.remove(&slot);
            listed = !listing.written.contains(&slot);
        }
        let news = match known.and_then(|slot| state.slots.get(slot)).map(|known| Version::of(&**known)) {
            None => true,
            Some(known) if listed => known != version,
            Some(known) => known < version,
        };
        if news {
            state.insert(object);
        }
    }

    /// Forgets an object that is not to be kept any more, or that is gone, at the version of this event.
    pub(crate) fn delete(&self, key: &Key, resource_version: &str) {
        let mut state = self.lock();
        let version = Version(resource_version.parse().unwrap_or_default());
        state.progress = state.progress.max(version);
        state.forget(key, version);
    }

    /// Takes in what the answer to a request of our own said: the object is gone that had this version. How far
    /// the watch has come it does not tell.
    pub fn deleted(&self, key: &Key, resource_version: &str) {
        self.lock().forget(key, Version(resource_version.parse().unwrap_or_default()));
    }

    /// The list is complete: what it did not show is gone, unless it was written later.
    pub(crate) fn list_ends(&self) {
        let mut state = self.lock();
        if let Some(Listing { unseen, written }) = state.listing.take() {
            for slot in unseen {
                let known = state.slots.get(slot).map(|known| Version::of(&**known));
                // The list was made no earlier than what it shows.
                if !written.contains(&slot) || known.is_some_and(|known| known <= state.progress) {
                    state.remove(slot);
                }
            }
        }
        drop(state);
        self.synced.send_replace(true);
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Kept> State<T> {
    /// Inserts what the watch has not told of.
    fn take_in(&mut self, object: T) {
        let is_known = self.slots.find(object.namespace(), object.name()).is_some();
        let slot = self.insert(object);
        if let Some(listing) = &mut self.listing {
            listing.written.insert(slot);
            if !is_known {
                listing.unseen.insert(slot);
            }
        }
    }

    fn insert(&mut self, object: T) -> u32 {
        let object = Arc::new(object);
        let groups = object.groups();
        let (slot, old) = self.slots.put(object.clone());
        let before = old.as_ref().map(|old| old.groups()).unwrap_or_default();
        if before != groups {
            self.leave(slot, before);
            for group in groups {
                self.groups.entry(group).or_default().insert(slot);
            }
        }
        self.tell(&Change { old, new: Some(object) });
        slot
    }

    /// Removes the object, unless it is a later one of this name, known by its creation.
    fn forget(&mut self, key: &Key, version: Version) {
        let Some(slot) = self.slots.find(&key.0, &key.1) else { return };
        if self.slots.get(slot).is_some_and(|known| Version::of(&**known) <= version) {
            if let Some(listing) = &mut self.listing {
                listing.unseen.remove(&slot);
                listing.written.remove(&slot);
            }
            self.remove(slot);
        } else if let Some(listing) = &mut self.listing {
            listing.unseen.remove(&slot);
        }
    }

    fn remove(&mut self, slot: u32) {
        let Some(object) = self.slots.take(slot) else { return };
        self.leave(slot, object.groups());
        self.tell(&Change { old: Some(object), new: None });
    }

    fn leave(&mut self, slot: u32, groups: Vec<T::Group>) {
        for group in groups {
            if let Some(members) = self.groups.get_mut(&group) {
                members.remove(&slot);
                if members.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
    }

    fn tell(&mut self, change: &Change<T>) {
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

/// Objects by small numbers, so that a name or a member of a group of thousands costs a few bytes.
struct Slots<T> {
    objects: Vec<Option<Arc<T>>>,
    free: Vec<u32>,
    /// The slots of objects, by namespace and name.
    names: HashTable<u32>,
    hasher: RandomState,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            free: Vec::new(),
            names: HashTable::new(),
            hasher: RandomState::default(),
        }
    }
}

impl<T: Kept> Slots<T> {
    fn get(&self, slot: u32) -> Option<&Arc<T>> {
        self.objects.get(slot as usize)?.as_ref()
    }

    fn find(&self, namespace: &str, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one((namespace, name));
        self.names.find(hash, |slot| self.has_name(*slot, namespace, name)).copied()
    }

    fn has_name(&self, slot: u32, namespace: &str, name: &str) -> bool {
        self.get(slot).is_some_and(|object| object.namespace() == namespace && object.name() == name)
    }

    /// Puts an object into the slot of its name; gives the one that was there.
    fn put(&mut self, object: Arc<T>) -> (u32, Option<Arc<T>>) {
        let slot = self.find(object.namespace(), object.name());
        if let Some((slot, place)) = slot.and_then(|slot| Some((slot, self.objects.get_mut(slot as usize)?)))
        {
            return (slot, place.replace(object));
        }
        let hash = self.hasher.hash_one((object.namespace(), object.name()));
        let slot = self.add(object);
        let Self { objects, names, hasher, .. } = self;
        names.insert_unique(hash, slot, |slot| {
            let object = objects.get(*slot as usize).and_then(Option::as_ref);
            object.map_or(0, |object| hasher.hash_one((object.namespace(), object.name())))
        });
        (slot, None)
    }

    fn take(&mut self, slot: u32) -> Option<Arc<T>> {
        let object = self.objects.get_mut(slot as usize)?.take()?;
        let hash = self.hasher.hash_one((object.namespace(), object.name()));
        if let Ok(name) = self.names.find_entry(hash, |known| *known == slot) {
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

#[cfg(test)]
mod tests;
