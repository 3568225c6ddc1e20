//! Writes that may have been carried out although no answer says so.
//!
//! Before the next plan is made for a key, the objects are read to which such writes were sent. So no plan is made on less
//! than what our own writes did (docs/behaviour/in-place-update.md#own-writes-and-retries).

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cluster::resource::Resource;
use cluster::watched::Key;
use futures::{StreamExt, stream};

use crate::ReconcileError;

/// Objects that are read at a time.
const CONCURRENCY: usize = 8;

/// An object to read, or a namespace where one may have been created: then without a name.
pub(crate) type Unread = (Resource<'static>, Key);

/// What is to be read before the next plan, by what is planned.
pub(crate) struct Unconfirmed<K>(Mutex<HashMap<K, BTreeSet<Unread>>>);

impl<K> Default for Unconfirmed<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Unconfirmed<K> {
    /// Notes that a write to this object may have been carried out.
    pub(crate) fn note(&self, key: &K, object: Unread) {
        self.lock().entry(key.clone()).or_default().insert(object);
    }

    /// Reads what is open by `read`, which takes it in.
    ///
    /// # Errors
    /// Some of it could not be read, and stays open.
    pub(crate) async fn confirm<F: Future<Output = Result<(), ReconcileError>>>(
        &self,
        key: &K,
        read: impl Fn(Unread) -> F,
    ) -> Result<(), ReconcileError> {
        let open = self.lock().get(key).cloned().unwrap_or_default();
        let readings = open.into_iter().map(async |object| {
            read(object.clone()).await?;
            if let Some(open) = self.lock().get_mut(key) {
                open.remove(&object);
            }
            Ok(())
        });
        // Built before they run: none waits for another.
        let readings: Vec<_> = readings.collect();
        stream::iter(readings)
            .buffer_unordered(CONCURRENCY)
            .fold(Ok(()), async |all, one| if all.is_err() { all } else { one })
            .await
    }

    /// Forgets a key that is gone.
    pub(crate) fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<K, BTreeSet<Unread>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
