//! What this process knows of the cluster: an immutable snapshot that is swapped as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admission::world::{Watched, World};
use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a list may fail inside our own conversion webhook before readiness stops waiting for it:
/// the Service routes only to ready replicas, so waiting longer would wait for itself.
pub const CONVERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// How far the cache of one kind is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// The first list is in progress.
    Pending,
    /// Filled and followed by a watch.
    Synced,
    /// The kind does not exist in this cluster; looked for again from time to time.
    Absent,
    /// The list fails inside our own conversion webhook since then.
    AwaitingConversion(Instant),
    /// The list fails for another reason.
    Failing(String),
}

/// The snapshot of the cluster, shared by all readers of one process.
#[derive(Debug)]
pub struct Index {
    world: ArcSwap<World>,
    caches: watch::Sender<BTreeMap<Watched, CacheState>>,
    published: watch::Sender<()>,
}

impl Index {
    /// An index of a world that no watch will change: objects from files or from tests.
    pub fn fixed(world: World) -> Self {
        Self::awaiting(world, [])
    }

    /// An empty index that waits for the caches of `kinds`.
    pub fn awaiting(world: World, kinds: impl IntoIterator<Item = Watched>) -> Self {
        let caches = kinds.into_iter().map(|kind| (kind, CacheState::Pending)).collect();
        let (caches, published) = (watch::Sender::new(caches), watch::Sender::new(()));
        Self { world: ArcSwap::from_pointee(world), caches, published }
    }

    /// The kinds whose caches it waits for.
    pub fn kinds(&self) -> Vec<Watched> {
        self.caches.borrow().keys().copied().collect()
    }

    /// The cluster as last published.
    pub fn world(&self) -> Arc<World> {
        self.world.load_full()
    }

    /// Makes `world` what readers see from now on.
    pub fn publish(&self, world: World) {
        self.world.store(Arc::new(world));
        self.published.send_replace(());
    }

    /// Reports each world that is published from now on.
    pub fn published(&self) -> watch::Receiver<()> {
        self.published.subscribe()
    }

    /// Records how far the cache of `kind` is.
    pub fn set_cache_state(&self, kind: Watched, state: CacheState) {
        self.caches.send_if_modified(|caches| {
            let changed = caches.get(&kind) != Some(&state);
            caches.insert(kind, state);
            changed
        });
    }

    /// How far the cache of `kind` is; a fixed index has everything.
    pub fn cache_state(&self, kind: Watched) -> CacheState {
        self.caches.borrow().get(&kind).cloned().unwrap_or(CacheState::Synced)
    }

    /// True where the cache of `kind` can answer. A kind that was absent when last looked for may be
    /// there by now, so its absence answers nothing.
    pub fn can_answer(&self, kind: Watched) -> bool {
        self.cache_state(kind) == CacheState::Synced
    }

    /// What readiness still waits for; `None` when it waits for nothing (docs/behaviour/server.md#readiness).
    pub fn waiting_for(&self) -> Option<String> {
        self.caches.borrow().iter().find_map(|(kind, state)| match state {
            CacheState::Synced | CacheState::Absent => None,
            CacheState::AwaitingConversion(since) if since.elapsed() >= CONVERSION_TIMEOUT => None,
            CacheState::AwaitingConversion(_) => Some(format!("{kind:?} waits for version conversion")),
            CacheState::Pending => Some(format!("{kind:?} is not listed yet")),
            CacheState::Failing(message) => Some(format!("{kind:?} can't be listed: {message}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn readiness_stops_waiting_for_our_own_conversion() {
        let index = Index::awaiting(World::new("kruise-system"), [Watched::SidecarSet]);
        assert!(index.waiting_for().is_some());
        index.set_cache_state(Watched::SidecarSet, CacheState::AwaitingConversion(Instant::now()));
        assert!(index.waiting_for().is_some());
        tokio::time::advance(CONVERSION_TIMEOUT).await;
        assert_eq!(index.waiting_for(), None);
        assert!(!index.can_answer(Watched::SidecarSet));
    }

    #[test]
    fn absent_kinds_and_fixed_worlds_are_ready() {
        let index = Index::awaiting(World::new("kruise-system"), [Watched::SidecarSet]);
        index.set_cache_state(Watched::SidecarSet, CacheState::Absent);
        assert_eq!(index.waiting_for(), None);
        assert!(Index::fixed(World::new("kruise-system")).can_answer(Watched::Namespace));
    }
}
