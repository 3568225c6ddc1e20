//! Objects of one kind that concern the node, by namespace and name: as the watch shows them and own writes leave
//! them, whichever is newer.
//!
//! It is small where the store of the controllers is fast: a node has a hundred Pods. Subscribers hear of every change
//! once, in order, and never block it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::follow::{Sink, readable};
use cluster::watched::{Key, WatchedObject};
use tokio::sync::{mpsc, watch};

use crate::news::{Source, is_news};

#[cfg(test)]
mod tests;

/// What can be kept.
pub trait Kept: Sized + Send + Sync + 'static {
    /// Reads an object.
    ///
    /// # Errors
    /// The text is no such object.
    fn read(json: &str) -> Result<Self, serde_json::Error>;

    /// UID and resource version.
    fn state(&self) -> (&str, &str);
}

/// A change of one object.
#[derive(Debug)]
pub struct Change<T> {
    /// Namespace and name.
    pub key: Key,
    /// The state before; `None` for an object that is new.
    pub old: Option<Arc<T>>,
    /// The state now; `None` for an object that is gone.
    pub new: Option<Arc<T>>,
}

/// The objects.
pub struct Known<T> {
    state: Mutex<State<T>>,
    synced: watch::Sender<bool>,
}

struct State<T> {
    objects: HashMap<Key, Arc<T>>,
    /// While a list is under way: what it has not shown yet.
    unseen: Option<HashSet<Key>>,
    subscribers: Vec<mpsc::UnboundedSender<Change<T>>>,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), old: self.old.clone(), new: self.new.clone() }
    }
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        let state = State { objects: HashMap::new(), unseen: None, subscribers: Vec::new() };
        Self { state: Mutex::new(state), synced: watch::Sender::new(false) }
    }
}

impl<T: Kept> Known<T> {
    /// An object by namespace and name.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.lock().objects.get(key).cloned()
    }

    /// The objects that `wanted` chooses, in no particular order.
    pub fn select(&self, wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.lock().objects.values().filter(|object| wanted(object)).cloned().collect()
    }

    /// Every change from now on, after one for each object that is there.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<Change<T>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.lock();
        for (key, object) in &state.objects {
            // The receiver is in our hands: it is open.
            drop(sender.send(Change { key: key.clone(), old: None, new: Some(object.clone()) }));
        }
        state.subscribers.push(sender);
        receiver
    }

    /// Waits until everything was listed once. Before that, what is missing may exist.
    pub async fn synced(&self) {
        // The sender lives as long as this does.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Whether everything was listed once.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Takes in what a write of our own returned, so that nobody decides on an older state from now on. An object that
    /// the watch has told to be gone, or replaced by another of its name, stays away.
    pub fn written(&self, key: &Key, object: T) {
        let mut state = self.lock();
        if state.is_news(Source::Write, key, &object) {
            // A list that is under way may be older.
            if let Some(unseen) = &mut state.unseen {
                unseen.remove(key);
            }
            state.put(key.clone(), object);
        }
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Kept> State<T> {
    fn is_news(&self, source: Source, key: &Key, object: &T) -> bool {
        is_news(source, object.state(), self.objects.get(key).map(|known| known.state()))
    }

    fn put(&mut self, key: Key, object: T) {
        let new = Arc::new(object);
        let old = self.objects.insert(key.clone(), new.clone());
        self.tell(&Change { key, old, new: Some(new) });
    }

    fn remove(&mut self, key: Key) {
        if let Some(old) = self.objects.remove(&key) {
            self.tell(&Change { key, old: Some(old), new: None });
        }
    }

    fn tell(&mut self, change: &Change<T>) {
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

impl<T: Kept> Sink for Known<T> {
    fn list_begins(&self) {
        let mut state = self.lock();
        state.unseen = Some(state.objects.keys().cloned().collect());
    }

    fn see(&self, object: WatchedObject) {
        let Some(read) = readable(&object, T::read) else { return self.gone(&object) };
        let key = object.key();
        let mut state = self.lock();
        let is_listed = state.unseen.as_mut().is_some_and(|unseen| unseen.remove(&key));
        let source = if is_listed { Source::List } else { Source::Watch };
        if state.is_news(source, &key, &read) {
            state.put(key, read);
        }
    }

    fn gone(&self, object: &WatchedObject) {
        self.lock().remove(object.key());
    }

    fn list_ends(&self) {
        let mut state = self.lock();
        for key in state.unseen.take().into_iter().flatten() {
            state.remove(key);
        }
        drop(state);
        self.synced.send_replace(true);
    }
}
