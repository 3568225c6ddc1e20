//! Places for connections: so many in all, so many for one peer. Where they run out, whoever has been idle
//! for longest makes room.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus::{IntCounter, IntGauge};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::ConnectionLimits;
use crate::metrics::Metrics;

/// Time for a place to become free before more connections are asked to leave.
const AGAIN: Duration = Duration::from_millis(250);
/// One in so many connections is asked to leave at once.
const BATCH: usize = 64;

/// The places of one server.
pub(super) struct Places {
    free: Arc<Semaphore>,
    limits: ConnectionLimits,
    started: Instant,
    taken: Mutex<Taken>,
    open: IntGauge,
    refused: IntCounter,
    displaced: IntCounter,
}

#[derive(Default)]
struct Taken {
    /// Connections by address; an address without any is not in it.
    peers: HashMap<IpAddr, usize>,
    occupants: HashMap<u64, Arc<Occupant>>,
    next: u64,
}

/// The place of an open connection; free again when dropped, however the connection ends.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    occupant: Arc<Occupant>,
    _permit: OwnedSemaphorePermit,
}

/// What is known of an open connection.
pub(super) struct Occupant {
    peer: IpAddr,
    started: Instant,
    /// Calls to which there is no answer yet.
    calls: AtomicUsize,
    /// When it was opened, or a call began or ended, in milliseconds from `started`.
    last: AtomicU64,
    /// There was a call.
    used: AtomicBool,
    leaving: AtomicBool,
    leave: Notify,
}

/// A call that has no answer yet.
pub(super) struct Call<'a>(&'a Occupant);

impl Places {
    pub(super) fn new(limits: &ConnectionLimits, metrics: &Metrics) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(limits.connections)),
            limits: *limits,
            started: Instant::now(),
            taken: Mutex::default(),
            open: metrics.connections.clone(),
            refused: metrics.connections_refused.clone(),
            displaced: metrics.connections_displaced.clone(),
        })
    }

    /// A place for a connection from `peer`, at once if there is one; otherwise others are asked to leave.
    /// `None` if the peer has as many as it may have: its next connection finds one of them gone, if any
    /// was idle.
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let peer = peer.to_canonical();
        let open = self.taken().peers.get(&peer).copied().unwrap_or_default();
        if open >= self.limits.per_peer {
            self.refused.inc();
            debug!(%peer, open, "a peer has too many connections; one is closed");
            self.displace(1, |occupant| occupant.peer == peer);
            return None;
        }
        let permit = match self.free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.make_room().await?,
        };
        let occupant = Arc::new(Occupant {
            peer,
            started: self.started,
            calls: AtomicUsize::new(0),
            last: AtomicU64::new(elapsed(self.started)),
            used: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            leave: Notify::new(),
        });
        let mut taken = self.taken();
        *taken.peers.entry(peer).or_default() += 1;
        taken.next += 1;
        let number = taken.next;
        taken.occupants.insert(number, occupant.clone());
        drop(taken);
        self.open.inc();
        Some(Place { places: self.clone(), number, occupant, _permit: permit })
    }

    async fn make_room(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            self.displace((self.limits.connections / BATCH).max(1), |_| true);
            if let Ok(permit) = timeout(AGAIN, self.free.clone().acquire_owned()).await {
                return permit.ok();
            }
        }
    }

    /// Asks up to `count` connections to leave: first those of the peer that has most, and of them those that
    /// have been idle for longest.
    fn displace(&self, count: usize, among: impl Fn(&Occupant) -> bool) {
        let now = elapsed(self.started);
        let taken = self.taken();
        let mut idle: Vec<&Arc<Occupant>> = taken
            .occupants
            .values()
            .filter(|occupant| among(occupant) && occupant.may_leave(now, &self.limits))
            .collect();
        // Calls go on meanwhile: each time is read once.
        idle.sort_by_cached_key(|occupant| {
            (Reverse(taken.peers.get(&occupant.peer)), occupant.last.load(Relaxed))
        });
        for occupant in idle.into_iter().take(count) {
            debug!(peer = %occupant.peer, "an idle connection is closed: its place is needed");
            occupant.leaving.store(true, Relaxed);
            occupant.leave.notify_one();
            self.displaced.inc();
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(super) fn occupant(&self) -> &Arc<Occupant> {
        &self.occupant
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open.dec();
        let mut taken = self.places.taken();
        taken.occupants.remove(&self.number);
        if let Entry::Occupied(mut open) = taken.peers.entry(self.occupant.peer) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}

impl Occupant {
    /// Counts a call until the guard is dropped.
    pub(super) fn enter(&self) -> Call<'_> {
        self.used.store(true, Relaxed);
        self.calls.fetch_add(1, Relaxed);
        self.last.store(elapsed(self.started), Relaxed);
        Call(self)
    }

    /// Who opened it.
    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Waits until the connection is asked to leave.
    pub(super) async fn displaced(&self) {
        self.leave.notified().await;
    }

    /// Waits until the time `limit` has passed without any call.
    pub(super) async fn unused(&self, limit: Duration) {
        sleep(limit).await;
        if self.used.load(Relaxed) {
            future::pending::<()>().await;
        }
    }

    /// Waits until no call is under way, for `least` and at most for `most`.
    pub(super) async fn quiet(&self, least: Duration, most: Duration) {
        let began = Instant::now();
        loop {
            sleep(least).await;
            if self.calls.load(Relaxed) == 0 || began.elapsed() >= most {
                return;
            }
        }
    }

    /// Idle, or with calls that have long been over or will never be.
    fn may_leave(&self, now: u64, limits: &ConnectionLimits) -> bool {
        let idle = Duration::from_millis(now.saturating_sub(self.last.load(Relaxed)));
        let least = if self.calls.load(Relaxed) == 0 { limits.settled } else { limits.call };
        idle >= least && !self.leaving.load(Relaxed)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.last.store(elapsed(self.0.started), Relaxed);
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

fn elapsed(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use futures::FutureExt;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn places(limits: ConnectionLimits) -> (Arc<Places>, Metrics) {
        let metrics = Metrics::new().unwrap();
        (Places::new(&limits, &metrics), metrics)
    }

    fn leaves(place: &Place) -> bool {
        place.occupant().displaced().now_or_never().is_some()
    }

    #[tokio::test]
    async fn a_peer_has_its_share_and_gives_it_back() {
        let (places, metrics) =
            places(ConnectionLimits { connections: 3, per_peer: 1, ..ConnectionLimits::default() });
        let first = places.take(ONE).await.unwrap();
        // The same address, as a listener for both families sees it.
        let IpAddr::V4(one) = ONE else { panic!("an address of version 4") };
        assert!(places.take(one.to_ipv6_mapped().into()).await.is_none());
        let second = places.take(TWO).await.unwrap();
        assert!(places.take(Ipv6Addr::LOCALHOST.into()).await.is_some());
        assert_eq!((metrics.connections.get(), metrics.connections_refused.get()), (2, 1));
        drop(first);
        let again = places.take(ONE).await.unwrap();
        drop((second, again));
        assert_eq!(metrics.connections.get(), 0);
        assert!(places.taken().peers.is_empty() && places.taken().occupants.is_empty());
        assert_eq!(places.free.available_permits(), 3);
    }

    #[tokio::test]
    async fn the_longest_idle_of_the_largest_peer_makes_room() {
        let limits =
            ConnectionLimits { connections: 4, settled: Duration::ZERO, ..ConnectionLimits::default() };
        let (places, metrics) = places(limits);
        let other = places.take(TWO).await.unwrap();
        let mut own = Vec::new();
        for _ in 0..3 {
            own.push(places.take(ONE).await.unwrap());
            std::thread::sleep(Duration::from_millis(2));
        }
        let busy = own[0].occupant().clone();
        let call = busy.enter();
        drop(own[1].occupant().enter());
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take(TWO).await }
        });
        own[2].occupant().displaced().await;
        assert!(!waiting.is_finished());
        assert!([&other, &own[0], &own[1]].into_iter().all(|place| !leaves(place)));
        assert_eq!(metrics.connections_displaced.get(), 1);
        own.pop();
        assert!(waiting.await.unwrap().is_some());
        drop(call);
    }

    #[tokio::test]
    async fn nobody_leaves_who_has_just_come_or_while_there_is_room() {
        let (places, metrics) =
            places(ConnectionLimits { connections: 1, per_peer: 1, ..ConnectionLimits::default() });
        let first = places.take(ONE).await.unwrap();
        assert!(places.take(ONE).await.is_none());
        assert!(timeout(AGAIN * 2, places.take(TWO)).await.is_err());
        assert!(!leaves(&first));
        assert_eq!(metrics.connections_displaced.get(), 0);
    }

    #[tokio::test]
    async fn calls_go_on_while_others_are_chosen_to_leave() {
        let limits = ConnectionLimits { settled: Duration::ZERO, ..ConnectionLimits::default() };
        let (places, metrics) = places(limits);
        let mut own = Vec::new();
        for _ in 0..200 {
            own.push(places.take(ONE).await.unwrap());
        }
        let done = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let busy: Vec<_> = own.iter().map(|place| place.occupant().clone()).collect();
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    busy.iter().for_each(|occupant| drop(occupant.enter()));
                }
            });
            for _ in 0..100 {
                places.displace(1, |_| true);
            }
            done.store(true, Relaxed);
        });
        assert!((1..=100).contains(&metrics.connections_displaced.get()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_has_its_calls_answered_first() {
        let (places, _) = places(ConnectionLimits::default());
        let place = places.take(ONE).await.unwrap();
        let (least, most) = (Duration::from_secs(2), Duration::from_secs(60));
        let call = place.occupant().enter();
        let quiet = place.occupant().quiet(least, most);
        let mut quiet = std::pin::pin!(quiet);
        assert!(timeout(least * 5, quiet.as_mut()).await.is_err());
        drop(call);
        assert!(timeout(least * 2, quiet).await.is_ok());
    }

    #[tokio::test]
    async fn calls_that_never_end_keep_no_place() {
        let brief = Duration::from_millis(1);
        let limits = ConnectionLimits {
            per_peer: 1,
            settled: brief,
            call: brief * 1000,
            ..ConnectionLimits::default()
        };
        let (places, _) = places(limits);
        let first = places.take(ONE).await.unwrap();
        let _call = first.occupant().enter();
        assert!(places.take(ONE).await.is_none());
        assert!(!leaves(&first));
        sleep(brief * 1100).await;
        // Refused once more, but the next one finds room.
        assert!(places.take(ONE).await.is_none());
        assert!(leaves(&first));
    }
}
