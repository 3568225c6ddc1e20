//! What was told of objects, so that what goes on is told once and not with each look.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cluster::watched::Key;
use values::event::Event;

/// The Events that were told of each object last.
#[derive(Default)]
pub(crate) struct Told(Mutex<HashMap<Key, Vec<Event>>>);

impl Told {
    /// Notes what goes on at an object now; gives what of it was not told yet.
    pub(crate) fn news(&self, key: Key, events: Vec<Event>) -> Vec<Event> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.remove(&key).unwrap_or_default();
        let news = events.iter().filter(|event| !before.contains(event)).cloned().collect();
        if !events.is_empty() {
            told.insert(key, events);
        }
        news
    }

    /// Forgets an object.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
