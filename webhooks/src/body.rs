//! Request bodies: collected whole, bounded in bytes and in time.

use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::poll;
use http_body_util::BodyExt;
use hyper::body::{Body, SizeHint};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::deadline::{Deadline, Slow};

/// Bodies above this size need one of few slots.
const SMALL: usize = 256 * 1024;
/// A body that may become larger needs one of the slots for the largest, of which a peer has one at a time.
const HUGE: u64 = 4 * 1024 * 1024;
const HUGE_SLOTS: usize = 2;
/// Time for a caller to send, and the rate at which it has to send besides: others wait for the memory or the place. The
/// API server sends at once what it has in memory.
const READING: Duration = Duration::from_secs(4);
const BYTES_PER_MILLISECOND: usize = 1024;
/// What an unfinished body costs at least: its call, its task, and the buffer that its bytes lie in.
const LEAST: usize = 16 * 1024;
/// What a body may occupy while it waits for memory: the window of its stream.
const WAITING: usize = 64 * 1024;
const KIBIBYTE: usize = 1024;

/// Memory for small bodies of all kinds that are not there at once. Each takes what it may need before it
/// waits for more bytes, so that none waits for memory with some in hand. A body that is there at once
/// takes nothing. No peer gets more than its share, with what it waits for.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    kibibytes: Arc<Semaphore>,
    /// Places in the line of those that wait for it.
    line: Semaphore,
    share: usize,
    /// What peers have or wait for, in bytes; one that has nothing is not in it.
    peers: Mutex<HashMap<IpAddr, usize>>,
    /// Bytes of small answers, which come and go too fast for locks.
    lent: AtomicUsize,
}

/// What a body of some peer has of the memory, or waits for.
#[derive(Debug)]
struct Share {
    memory: Arc<BodyMemory>,
    peer: IpAddr,
    bytes: usize,
}

/// Memory that a body or an answer has.
#[derive(Debug)]
struct Taken {
    _permit: OwnedSemaphorePermit,
    _share: Share,
}

impl BodyMemory {
    /// So many bytes, and as many for the bodies that wait; at most `share` of them for one peer.
    pub(crate) fn new(bytes: usize, share: usize) -> Arc<Self> {
        let kibibytes = Arc::new(Semaphore::new(bytes / KIBIBYTE));
        let line = Semaphore::new(bytes / WAITING);
        Arc::new(Self { kibibytes, line, share, peers: Mutex::default(), lent: AtomicUsize::new(0) })
    }

    /// Waits until `deadline` for `bytes`.
    async fn take(
        self: &Arc<Self>,
        peer: IpAddr,
        bytes: usize,
        deadline: Deadline,
    ) -> Result<Taken, BodyError> {
        let share = self.share(peer, bytes).ok_or(BodyError::NoMemory)?;
        let share = match self.at_once_for(share) {
            Ok(taken) => return Ok(taken),
            Err(share) => share,
        };
        let _place = self.line.try_acquire().map_err(|_| BodyError::NoMemory)?;
        let acquire = self.kibibytes.clone().acquire_many_owned(kibibytes(bytes));
        let acquired = deadline.within("waiting for memory", acquire).await;
        let permit = acquired.map_err(|_| BodyError::NoMemory)?.map_err(|_| BodyError::Stopping)?;
        Ok(Taken { _permit: permit, _share: share })
    }

    /// Takes so many bytes for a small answer beside the memory, as long as all together are no more than a peer's share.
    pub(crate) fn lend(&self, bytes: usize) -> bool {
        let is_lent = self.lent.fetch_add(bytes, Relaxed) + bytes <= self.share;
        if !is_lent {
            self.give_back(bytes);
        }
        is_lent
    }

    /// Gives back what was lent.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.lent.fetch_sub(bytes, Relaxed);
    }

    /// So many bytes, where there are as many now.
    pub(crate) fn at_once(self: &Arc<Self>, peer: IpAddr, bytes: usize) -> Option<Held> {
        let taken = self.at_once_for(self.share(peer, bytes)?).ok()?;
        Some(Held { memory: Some(taken), slot: None })
    }

    fn at_once_for(&self, share: Share) -> Result<Taken, Share> {
        match self.kibibytes.clone().try_acquire_many_owned(kibibytes(share.bytes)) {
            Ok(permit) => Ok(Taken { _permit: permit, _share: share }),
            Err(_) => Err(share),
        }
    }

    /// `None` where the peer would have more than its share.
    fn share(self: &Arc<Self>, peer: IpAddr, bytes: usize) -> Option<Share> {
        let mut peers = self.peers();
        let held = peers.get(&peer).copied().unwrap_or_default().saturating_add(bytes);
        if held > self.share {
            return None;
        }
        peers.insert(peer, held);
        Some(Share { memory: self.clone(), peer, bytes })
    }

    // Held for single operations only, never over an await.
    fn peers(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kibibytes(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(KIBIBYTE)).unwrap_or(u32::MAX)
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut peers = self.memory.peers();
        let rest = peers.get(&self.peer).copied().unwrap_or_default().saturating_sub(self.bytes);
        match rest {
            0 => drop(peers.remove(&self.peer)),
            rest => drop(peers.insert(self.peer, rest)),
        }
    }
}

/// Limits the number of large bodies, in all and of one peer: no peer fills the queue of all.
#[derive(Debug)]
struct Slots {
    free: Arc<Semaphore>,
    per_peer: usize,
    /// The limits of peers that have a slot or wait for one.
    peers: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// The slot of a peer, or its right to wait for one.
#[derive(Debug)]
struct Slot {
    slots: Arc<Slots>,
    peer: IpAddr,
    own: Option<OwnedSemaphorePermit>,
    free: Option<OwnedSemaphorePermit>,
}

impl Slots {
    fn new(slots: usize, per_peer: usize) -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(slots)), per_peer, peers: Mutex::default() })
    }

    async fn take(self: Arc<Self>, peer: IpAddr) -> Result<Slot, BodyError> {
        let share = || Arc::new(Semaphore::new(self.per_peer));
        let own = self.peers().entry(peer).or_insert_with(share).clone();
        // Before anything is waited for: a caller that leaves gives back what it has.
        let mut slot = Slot { slots: self.clone(), peer, own: None, free: None };
        slot.own = Some(own.acquire_owned().await.map_err(|_| BodyError::Stopping)?);
        slot.free = Some(self.free.clone().acquire_owned().await.map_err(|_| BodyError::Stopping)?);
        Ok(slot)
    }

    // Held for single operations only, never over an await.
    fn peers(&self) -> MutexGuard<'_, HashMap<IpAddr, Arc<Semaphore>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop((self.free.take(), self.own.take()));
        let mut peers = self.slots.peers();
        if peers.get(&self.peer).is_some_and(|own| Arc::strong_count(own) == 1) {
            peers.remove(&self.peer);
        }
    }
}

/// The memory and the slots of one kind of request.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) memory: Arc<BodyMemory>,
    large: Arc<Slots>,
    huge: Arc<Slots>,
}

impl Room {
    /// Room for so many large bodies besides those of the largest, and for small ones in `memory`.
    pub(crate) fn new(memory: Arc<BodyMemory>, large: usize, per_peer: usize) -> Self {
        Self { memory, large: Slots::new(large, per_peer), huge: Slots::new(HUGE_SLOTS, 1) }
    }

    /// The slots for a body that is not small. API servers announce the length; a body without it may become of any size,
    /// and takes one for the largest at once: it would hold much memory while it waits for another slot later.
    fn slots(&self, announced: &SizeHint) -> &Arc<Slots> {
        if announced.upper().is_some_and(|length| length <= HUGE) { &self.large } else { &self.huge }
    }
}

/// What a body or an answer holds.
#[derive(Debug, Default)]
pub(crate) struct Held {
    memory: Option<Taken>,
    slot: Option<Slot>,
}

impl Held {
    /// Whether it holds a slot.
    pub(crate) fn has_slot(&self) -> bool {
        self.slot.is_some()
    }
}

/// A body in memory, with what it holds.
pub(crate) struct Collected {
    pub(crate) bytes: Bytes,
    pub(crate) held: Held,
}

/// Why a body could not be collected.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    #[error("request entity is too large: limit is {0} bytes")]
    TooLarge(usize),
    #[error("the request ended early: {0}")]
    Broken(Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    Slow(#[from] Slow),
    #[error("too many requests are being received")]
    NoMemory,
    #[error("the server is stopping")]
    Stopping,
}

/// A body that is being received.
struct Receiving<'a> {
    room: &'a Room,
    peer: IpAddr,
    held: Held,
    deadline: Deadline,
    /// When more was first waited for, with what it holds now.
    began: Option<Instant>,
}

impl<'a> Receiving<'a> {
    fn new(room: &'a Room, peer: IpAddr, deadline: Deadline) -> Self {
        Self { room, peer, held: Held::default(), deadline, began: None }
    }

    /// Takes the memory of a small body, before anything is waited for.
    async fn settle(&mut self, announced: &SizeHint) -> Result<(), BodyError> {
        if self.held.memory.is_none() && self.held.slot.is_none() {
            let exact = announced.exact().and_then(|length| usize::try_from(length).ok());
            let needed = exact.unwrap_or(SMALL).clamp(LEAST, SMALL);
            self.held.memory = Some(self.room.memory.take(self.peer, needed, self.deadline).await?);
        }
        Ok(())
    }

    /// Makes sure that `length` bytes may be held.
    async fn cover(&mut self, length: usize, announced: &SizeHint) -> Result<(), BodyError> {
        if length > self.covered() {
            self.settle(announced).await?;
            let slot = self.room.slots(announced).clone().take(self.peer);
            let slot = self.deadline.within("waiting for room for a large request", slot).await??;
            self.held = Held { memory: None, slot: Some(slot) };
            self.began = None;
        }
        Ok(())
    }

    /// Bytes that it may have.
    fn covered(&self) -> usize {
        if self.held.has_slot() { usize::MAX } else { SMALL }
    }

    /// Until when a caller that has sent so many bytes has to send more.
    fn reading(&mut self, received: usize) -> Deadline {
        let began = *self.began.get_or_insert_with(Instant::now);
        let rate = Duration::from_millis((received / BYTES_PER_MILLISECOND) as u64);
        self.deadline.before(began + READING + rate)
    }
}

/// Reads the `body` of a request of `peer` to its end, at most `limit` bytes, until `deadline` or until the caller took
/// too long to send it. A body that arrives in one piece is not copied.
pub(crate) async fn collect<B>(
    body: &mut B,
    limit: usize,
    room: &Room,
    peer: IpAddr,
    deadline: Deadline,
) -> Result<Collected, BodyError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let announced = body.size_hint();
    let expected = announced.lower();
    if expected > limit as u64 {
        return Err(BodyError::TooLarge(limit));
    }
    let mut receiving = Receiving::new(room, peer, deadline);
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    while !body.is_end_stream() {
        let frame = match poll!(body.frame()) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                receiving.settle(&announced).await?;
                let reading = receiving.reading(first.len() + whole.len());
                reading.within("reading the request", body.frame()).await?
            }
        };
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|error| BodyError::Broken(error.into()))?.into_data() else { continue };
        let length = first.len() + whole.len() + data.len();
        if length > limit {
            return Err(BodyError::TooLarge(limit));
        }
        receiving.cover(length, &announced).await?;
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            // Room for what was announced, but no more than is covered.
            let announced = usize::try_from(expected).unwrap_or(limit);
            whole.reserve(announced.min(receiving.covered()).max(length));
            whole.extend_from_slice(&first);
            first = Bytes::new();
        }
        whole.extend_from_slice(&data);
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    Ok(Collected { bytes, held: receiving.held })
}
