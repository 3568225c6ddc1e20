//! Request bodies: collected whole, bounded in bytes and in time.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::deadline::{Deadline, Slow};

/// Bodies up to this size are bounded in number by the connections and their streams alone; larger ones
/// also need one of few slots, so that they cannot fill the memory together.
const SMALL: usize = 256 * 1024;
/// Above this size a body needs the only slot there is for the largest.
const HUGE: usize = 4 * 1024 * 1024;
/// Time for a caller to send its body, and again after each wait for a slot. The API server sends at once
/// what it has in memory.
const READING: Duration = Duration::from_secs(10);

/// The slots of one kind of request.
#[derive(Debug)]
pub(crate) struct Room {
    large: Semaphore,
    huge: Semaphore,
}

impl Room {
    /// Room for so many large bodies besides one of the largest.
    pub(crate) fn new(large: usize) -> Self {
        Self { large: Semaphore::new(large), huge: Semaphore::new(1) }
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

/// A body in memory, with the slot that a large one holds.
pub(crate) struct Collected<'a> {
    pub(crate) bytes: Bytes,
    _slot: Option<SemaphorePermit<'a>>,
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
    #[error("the server is stopping")]
    Stopping,
}

/// Reads `body`, at most `limit` bytes, until `deadline` or until the caller took too long to send it. A
/// body that arrives in one piece is not copied.
pub(crate) async fn collect<B>(
    mut body: B,
    limit: usize,
    room: &Room,
    deadline: Deadline,
) -> Result<Collected<'_>, BodyError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let expected = body.size_hint().lower();
    if expected > limit as u64 {
        return Err(BodyError::TooLarge(limit));
    }
    let mut slot = None;
    // Bytes that may be held with the slot at hand.
    let mut covered = SMALL;
    let mut reading = deadline.at_most(READING);
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    while !body.is_end_stream() {
        let frame = reading.within("reading the request", body.frame()).await?;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|error| BodyError::Broken(error.into()))?.into_data() else { continue };
        let length = first.len() + whole.len() + data.len();
        if length > limit {
            return Err(BodyError::TooLarge(limit));
        }
        if length > covered
            && let Some((slots, up_to)) = room.tier(length)
        {
            let acquire = deadline.within("waiting for room for a large request", slots.acquire());
            slot = Some(acquire.await?.map_err(|_| BodyError::Stopping)?);
            covered = up_to;
            reading = deadline.at_most(READING);
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            // Room for what was announced, but no more than is covered.
            let announced = usize::try_from(expected).unwrap_or(limit);
            whole.reserve(announced.min(covered).max(length));
            whole.extend_from_slice(&first);
            first = Bytes::new();
        }
        whole.extend_from_slice(&data);
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    Ok(Collected { bytes, _slot: slot })
}
