//! Limits the number of connections, in all and of one peer. At the limit the connection that was idle for longest is
//! closed.

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

/// Time for a slot to become free before more connections are closed.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// One in so many connections is closed at once.
const BATCH: usize = 64;

/// The slots of one server.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    limits: ConnectionLimits,
    started: Instant,
    taken: Mutex<Taken>,
    open: IntGauge,
    refused: IntCounter,
    evicted: IntCounter,
}

#[derive(Default)]
struct Taken {
    /// Connections by address; an address without any is not in it.
    peers: HashMap<IpAddr, usize>,
    connections: HashMap<u64, Arc<ConnectionState>>,
    next: u64,
}

/// The slot of an open connection; free again when dropped, however the connection ends.
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    state: Arc<ConnectionState>,
    _permit: OwnedSemaphorePermit,
}

/// The state of an open connection.
pub(super) struct ConnectionState {
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
pub(super) struct Call<'a>(&'a ConnectionState);

impl ConnectionSlots {
    pub(super) fn new(limits: &ConnectionLimits, metrics: &Metrics) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(limits.connections)),
            limits: *limits,
            started: Instant::now(),
            taken: Mutex::default(),
            open: metrics.connections.clone(),
            refused: metrics.connections_refused.clone(),
            evicted: metrics.connections_displaced.clone(),
        })
    }

    /// Takes a slot for a connection from `peer`, at once if one is free; otherwise closes idle connections first.
    /// `None` if the peer is at its limit: one of its idle connections is closed for its next one.
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        let peer = peer.to_canonical();
        let open = self.taken().peers.get(&peer).copied().unwrap_or_default();
        if open >= self.limits.per_peer {
            self.refused.inc();
            debug!(%peer, open, "a peer has too many connections; one is closed");
            self.evict(1, |state| state.peer == peer);
            return None;
        }
        let permit = match self.free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.make_room().await?,
        };
        let state = Arc::new(ConnectionState {
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
        taken.connections.insert(number, state.clone());
        drop(taken);
        self.open.inc();
        Some(ConnectionSlot { slots: self.clone(), number, state, _permit: permit })
    }

    async fn make_room(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            self.evict((self.limits.connections / BATCH).max(1), |_| true);
            if let Ok(permit) = timeout(RETRY_DELAY, self.free.clone().acquire_owned()).await {
                return permit.ok();
            }
        }
    }

    /// Closes up to `count` idle connections: first those of the peer that has most, and of them those that were idle
    /// for longest.
    fn evict(&self, count: usize, among: impl Fn(&ConnectionState) -> bool) {
        let now = elapsed(self.started);
        let taken = self.taken();
        let mut idle: Vec<&Arc<ConnectionState>> = taken
            .connections
            .values()
            .filter(|state| among(state) && state.may_leave(now, &self.limits))
            .collect();
        // Calls continue meanwhile: each time is read once.
        idle.sort_by_cached_key(|state| (Reverse(taken.peers.get(&state.peer)), state.last.load(Relaxed)));
        for state in idle.into_iter().take(count) {
            debug!(peer = %state.peer, "an idle connection is closed: its slot is needed");
            state.leaving.store(true, Relaxed);
            state.leave.notify_one();
            self.evicted.inc();
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    pub(super) fn state(&self) -> &Arc<ConnectionState> {
        &self.state
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.open.dec();
        let mut taken = self.slots.taken();
        taken.connections.remove(&self.number);
        if let Entry::Occupied(mut open) = taken.peers.entry(self.state.peer) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}

impl ConnectionState {
    /// Counts a call until the guard is dropped.
    pub(super) fn enter(&self) -> Call<'_> {
        self.used.store(true, Relaxed);
        self.calls.fetch_add(1, Relaxed);
        self.last.store(elapsed(self.started), Relaxed);
        Call(self)
    }

    /// The address of the peer.
    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Waits until the connection is to be closed.
    pub(super) async fn evicted(&self) {
        self.leave.notified().await;
    }

    /// Waits until the time `limit` has passed without any call.
    pub(super) async fn unused(&self, limit: Duration) {
        sleep(limit).await;
        if self.used.load(Relaxed) {
            future::pending::<()>().await;
        }
    }

    /// Waits until no call is in progress, for `least` and at most for `most`.
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

    fn slots(limits: ConnectionLimits) -> (Arc<ConnectionSlots>, Metrics) {
        let metrics = Metrics::new().unwrap();
        (ConnectionSlots::new(&limits, &metrics), metrics)
    }

    fn leaves(slot: &ConnectionSlot) -> bool {
        slot.state().evicted().now_or_never().is_some()
    }

    #[tokio::test]
    async fn a_peer_has_its_share_and_gives_it_back() {
        let (slots, metrics) =
            slots(ConnectionLimits { connections: 3, per_peer: 1, ..ConnectionLimits::default() });
        let first = slots.take(ONE).await.unwrap();
        // The same address, as a listener for both families sees it.
        let IpAddr::V4(one) = ONE else { panic!("an address of version 4") };
        assert!(slots.take(one.to_ipv6_mapped().into()).await.is_none());
        let second = slots.take(TWO).await.unwrap();
        assert!(slots.take(Ipv6Addr::LOCALHOST.into()).await.is_some());
        assert_eq!((metrics.connections.get(), metrics.connections_refused.get()), (2, 1));
        drop(first);
        let again = slots.take(ONE).await.unwrap();
        drop((second, again));
        assert_eq!(metrics.connections.get(), 0);
        assert!(slots.taken().peers.is_empty() && slots.taken().connections.is_empty());
        assert_eq!(slots.free.available_permits(), 3);
    }

    #[tokio::test]
    async fn the_longest_idle_of_the_largest_peer_makes_room() {
        let limits =
            ConnectionLimits { connections: 4, settled: Duration::ZERO, ..ConnectionLimits::default() };
        let (slots, metrics) = slots(limits);
        let other = slots.take(TWO).await.unwrap();
        let mut own = Vec::new();
        for _ in 0..3 {
            own.push(slots.take(ONE).await.unwrap());
            std::thread::sleep(Duration::from_millis(2));
        }
        let busy = own[0].state().clone();
        let call = busy.enter();
        drop(own[1].state().enter());
        let waiting = tokio::spawn({
            let slots = slots.clone();
            async move { slots.take(TWO).await }
        });
        own[2].state().evicted().await;
        assert!(!waiting.is_finished());
        assert!([&other, &own[0], &own[1]].into_iter().all(|slot| !leaves(slot)));
        assert_eq!(metrics.connections_displaced.get(), 1);
        own.pop();
        assert!(waiting.await.unwrap().is_some());
        drop(call);
    }

    #[tokio::test]
    async fn nobody_leaves_who_has_just_come_or_while_there_is_room() {
        let (slots, metrics) =
            slots(ConnectionLimits { connections: 1, per_peer: 1, ..ConnectionLimits::default() });
        let first = slots.take(ONE).await.unwrap();
        assert!(slots.take(ONE).await.is_none());
        assert!(timeout(RETRY_DELAY * 2, slots.take(TWO)).await.is_err());
        assert!(!leaves(&first));
        assert_eq!(metrics.connections_displaced.get(), 0);
    }

    #[tokio::test]
    async fn calls_go_on_while_others_are_chosen_to_leave() {
        let limits = ConnectionLimits { settled: Duration::ZERO, ..ConnectionLimits::default() };
        let (slots, metrics) = slots(limits);
        let mut own = Vec::new();
        for _ in 0..200 {
            own.push(slots.take(ONE).await.unwrap());
        }
        let done = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let busy: Vec<_> = own.iter().map(|slot| slot.state().clone()).collect();
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    busy.iter().for_each(|state| drop(state.enter()));
                }
            });
            for _ in 0..100 {
                slots.evict(1, |_| true);
            }
            done.store(true, Relaxed);
        });
        assert!((1..=100).contains(&metrics.connections_displaced.get()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_has_its_calls_answered_first() {
        let (slots, _) = slots(ConnectionLimits::default());
        let slot = slots.take(ONE).await.unwrap();
        let (least, most) = (Duration::from_secs(2), Duration::from_secs(60));
        let call = slot.state().enter();
        let quiet = slot.state().quiet(least, most);
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
        let (slots, _) = slots(limits);
        let first = slots.take(ONE).await.unwrap();
        let _call = first.state().enter();
        assert!(slots.take(ONE).await.is_none());
        assert!(!leaves(&first));
        sleep(brief * 1100).await;
        // Refused once more, but the next one finds room.
        assert!(slots.take(ONE).await.is_none());
        assert!(leaves(&first));
    }
}
