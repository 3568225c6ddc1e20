//! Request bodies: collected whole, bounded in bytes and in time.

use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::poll;
use http_body_util::BodyExt;
use hyper::body::{Body, SizeHint};
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::deadline::{Deadline, Slow};

/// Bodies above this size need one of few slots.
const SMALL: usize = 256 * 1024;
/// Above this size a body needs the only slot there is for the largest.
const HUGE: usize = 4 * 1024 * 1024;
/// Time for a caller to send its body, and again after each wait for a slot. The API server sends at once
/// what it has in memory.
const READING: Duration = Duration::from_secs(10);
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
    kibibytes: Semaphore,
    /// Places in the line of those that wait for it.
    line: Semaphore,
    share: usize,
    /// What peers have or wait for, in bytes; one that has nothing is not in it.
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// What a body of some peer has of the memory, or waits for.
struct Share<'a> {
    memory: &'a BodyMemory,
    peer: IpAddr,
    bytes: usize,
}

/// Memory that a body has.
struct Taken<'a> {
    _permit: SemaphorePermit<'a>,
    _share: Share<'a>,
}

impl BodyMemory {
    /// So many bytes, and as many for the bodies that wait; at most `share` of them for one peer.
    pub(crate) fn new(bytes: usize, share: usize) -> Arc<Self> {
        let kibibytes = Semaphore::new(bytes / KIBIBYTE);
        Arc::new(Self { kibibytes, line: Semaphore::new(bytes / WAITING), share, peers: Mutex::default() })
    }

    /// Waits until `deadline` for `bytes`.
    async fn take(&self, peer: IpAddr, bytes: usize, deadline: Deadline) -> Result<Taken<'_>, BodyError> {
        let share = self.share(peer, bytes).ok_or(BodyError::NoMemory)?;
        let kibibytes = u32::try_from(bytes.div_ceil(KIBIBYTE)).unwrap_or(u32::MAX);
        if let Ok(permit) = self.kibibytes.try_acquire_many(kibibytes) {
            return Ok(Taken { _permit: permit, _share: share });
        }
        let _place = self.line.try_acquire().map_err(|_| BodyError::NoMemory)?;
        let acquired = deadline.within("waiting for memory", self.kibibytes.acquire_many(kibibytes)).await;
        let permit = acquired.map_err(|_| BodyError::NoMemory)?.map_err(|_| BodyError::Stopping)?;
        Ok(Taken { _permit: permit, _share: share })
    }

    /// `None` where the peer would have more than its share.
    fn share(&self, peer: IpAddr, bytes: usize) -> Option<Share<'_>> {
        let mut peers = self.peers();
        let held = peers.get(&peer).copied().unwrap_or_default().saturating_add(bytes);
        if held > self.share {
            return None;
        }
        peers.insert(peer, held);
        Some(Share { memory: self, peer, bytes })
    }

    // Held for single operations only, never over an await.
    fn peers(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut peers = self.memory.peers();
        let rest = peers.get(&self.peer).copied().unwrap_or_default().saturating_sub(self.bytes);
        match rest {
            0 => drop(peers.remove(&self.peer)),
            rest => drop(peers.insert(self.peer, rest)),
        }
    }
}

/// The memory and the slots of one kind of request.
#[derive(Debug)]
pub(crate) struct Room {
    memory: Arc<BodyMemory>,
    large: Semaphore,
    huge: Semaphore,
}

impl Room {
    /// Room for so many large bodies besides one of the largest, and for small ones in `memory`.
    pub(crate) fn new(memory: Arc<BodyMemory>, large: usize) -> Self {
        Self { memory, large: Semaphore::new(large), huge: Semaphore::new(1) }
    }

    /// The slots for a body of this size, and the size up to which they serve.
    fn tier(&self, length: usize) -> Option<(&Semaphore, usize)> {
        match length {
            0..=SMALL => None,
            length if length <= HUGE => Some((&self.large, HUGE)),
            _ => Some((&self.huge, usize::MAX)),
        }
    }
}

/// A body in memory, with its memory or the slot that a large one holds.
pub(crate) struct Collected<'a> {
    pub(crate) bytes: Bytes,
    _hold: Hold<'a>,
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

/// What a body holds while it is received and answered.
struct Hold<'a> {
    room: &'a Room,
    peer: IpAddr,
    memory: Option<Taken<'a>>,
    slot: Option<SemaphorePermit<'a>>,
    /// Bytes that it may have.
    covered: usize,
    deadline: Deadline,
    /// Runs once something has been waited for.
    reading: Option<Deadline>,
}

impl<'a> Hold<'a> {
    fn new(room: &'a Room, peer: IpAddr, deadline: Deadline) -> Self {
        Self { room, peer, memory: None, slot: None, covered: SMALL, deadline, reading: None }
    }

    /// Takes the memory of a small body, before anything is waited for.
    async fn settle(&mut self, announced: &SizeHint) -> Result<(), BodyError> {
        if self.memory.is_none() && self.slot.is_none() {
            let exact = announced.exact().and_then(|length| usize::try_from(length).ok());
            let needed = exact.unwrap_or(SMALL).clamp(LEAST, SMALL);
            self.memory =
                Some(self.room.memory.take(self.peer, needed, self.deadline.at_most(READING)).await?);
        }
        Ok(())
    }

    /// Makes sure that `length` bytes may be held.
    async fn cover(&mut self, length: usize, announced: &SizeHint) -> Result<(), BodyError> {
        if length > self.covered
            && let Some((slots, up_to)) = self.room.tier(length)
        {
            self.settle(announced).await?;
            let acquire = self.deadline.within("waiting for room for a large request", slots.acquire());
            self.slot = Some(acquire.await?.map_err(|_| BodyError::Stopping)?);
            (self.memory, self.covered, self.reading) = (None, up_to, None);
        }
        Ok(())
    }

    /// Until when the caller may send.
    fn reading(&mut self) -> Deadline {
        *self.reading.get_or_insert_with(|| self.deadline.at_most(READING))
    }
}

/// Reads the `body` of a request of `peer` to its end, at most `limit` bytes, until `deadline` or until the caller took
/// too long to send it. A body that arrives in one piece is not copied.
pub(crate) async fn collect<'r, B>(
    body: &mut B,
    limit: usize,
    room: &'r Room,
    peer: IpAddr,
    deadline: Deadline,
) -> Result<Collected<'r>, BodyError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let announced = body.size_hint();
    let expected = announced.lower();
    if expected > limit as u64 {
        return Err(BodyError::TooLarge(limit));
    }
    let mut hold = Hold::new(room, peer, deadline);
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    while !body.is_end_stream() {
        let frame = match poll!(body.frame()) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                hold.settle(&announced).await?;
                hold.reading().within("reading the request", body.frame()).await?
            }
        };
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|error| BodyError::Broken(error.into()))?.into_data() else { continue };
        let length = first.len() + whole.len() + data.len();
        if length > limit {
            return Err(BodyError::TooLarge(limit));
        }
        hold.cover(length, &announced).await?;
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            // Room for what was announced, but no more than is covered.
            let announced = usize::try_from(expected).unwrap_or(limit);
            whole.reserve(announced.min(hold.covered).max(length));
            whole.extend_from_slice(&first);
            first = Bytes::new();
        }
        whole.extend_from_slice(&data);
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    Ok(Collected { bytes, _hold: hold })
}
