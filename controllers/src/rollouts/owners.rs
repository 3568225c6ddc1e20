//! Whose Pods are read for which objects, so that a change of a Pod wakes them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cluster::watched::Key;
use pod::observed::ObservedPod;

use super::lists::Reader;
use crate::workload::store::Change;

/// The readers of the Pods of each owner, by its UID.
#[derive(Default)]
pub(super) struct Owners(Mutex<HashMap<String, BTreeSet<Reader>>>);

impl Owners {
    /// From now on changes of the owner's Pods concern the reader. To be called before they are read.
    pub(super) fn read(&self, owner: &str, reader: &Reader) {
        self.lock().entry(owner.to_owned()).or_default().insert(reader.clone());
    }

    /// This reader reads no Pods any more.
    pub(super) fn leave(&self, reader: &Reader) {
        self.lock().retain(|_, readers| {
            readers.remove(reader);
            !readers.is_empty()
        });
    }

    /// The objects of a controller that read the Pods of an owner of the changed Pod.
    pub(super) fn readers(&self, controller: &str, change: &Change<ObservedPod>) -> BTreeSet<Key> {
        let all = self.lock();
        if all.is_empty() {
            return BTreeSet::new();
        }
        let owners = change.states().flat_map(|pod| pod.metadata.owner_references.iter());
        let readers = owners.filter_map(|owner| all.get(owner.uid.as_str())).flatten();
        readers.filter(|(reader, _)| *reader == controller).map(|(_, key)| key.clone()).collect()
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeSet<Reader>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
