//! Places for connections: so many in all, so many for one peer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::{IntCounter, IntGauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::debug;

use super::ConnectionLimits;
use crate::metrics::Metrics;

/// The places of one server.
pub(super) struct Places {
    free: Arc<Semaphore>,
    per_peer: usize,
    /// Connections by address; an address without any is not in it.
    peers: Mutex<HashMap<IpAddr, usize>>,
    open: IntGauge,
    refused: IntCounter,
}

/// A place that nobody has taken yet.
pub(super) struct Free {
    places: Arc<Places>,
    permit: OwnedSemaphorePermit,
}

/// The place of an open connection; free again when dropped, however the connection ends.
pub(super) struct Place {
    places: Arc<Places>,
    peer: IpAddr,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(limits: &ConnectionLimits, metrics: &Metrics) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(limits.connections)),
            per_peer: limits.per_peer,
            peers: Mutex::default(),
            open: metrics.connections.clone(),
            refused: metrics.connections_refused.clone(),
        })
    }

    /// Waits until a place is free.
    pub(super) async fn free(self: &Arc<Self>) -> Option<Free> {
        let permit = self.free.clone().acquire_owned().await.ok()?;
        Some(Free { places: self.clone(), permit })
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Free {
    /// Gives the place to a connection from `peer`; `None` if that has as many as it may have.
    pub(super) fn take(self, peer: IpAddr) -> Option<Place> {
        let Self { places, permit } = self;
        let peer = peer.to_canonical();
        let mut peers = places.peers();
        let open = peers.get(&peer).copied().unwrap_or_default();
        if open >= places.per_peer {
            places.refused.inc();
            debug!(%peer, open, "a peer has too many connections; one is closed");
            return None;
        }
        peers.insert(peer, open + 1);
        drop(peers);
        places.open.inc();
        Some(Place { places, peer, _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open.dec();
        if let Entry::Occupied(mut open) = self.places.peers().entry(self.peer) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[tokio::test]
    async fn a_peer_has_its_share_and_gives_it_back() {
        let limits = ConnectionLimits { connections: 3, per_peer: 1, ..ConnectionLimits::default() };
        let metrics = Metrics::new().unwrap();
        let places = Places::new(&limits, &metrics);
        let take = async |peer: IpAddr| places.free().await.unwrap().take(peer);
        let (one, two) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let first = take(one.into()).await.unwrap();
        // The same address, as a listener for both families sees it.
        assert!(take(one.to_ipv6_mapped().into()).await.is_none());
        let second = take(two.into()).await.unwrap();
        assert!(take(Ipv6Addr::LOCALHOST.into()).await.is_some());
        assert_eq!((metrics.connections.get(), metrics.connections_refused.get()), (2, 1));
        drop(first);
        let again = take(one.into()).await.unwrap();
        drop((second, again));
        assert_eq!(metrics.connections.get(), 0);
        assert!(places.peers().is_empty());
        assert_eq!(places.free.available_permits(), 3);
    }
}
