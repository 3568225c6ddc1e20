//! Request bodies: collected whole, bounded in bytes and in time.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::deadline::{Deadline, Slow};

/// Bodies up to this size are bounded in number by the concurrency limit alone; larger ones also need
/// one of few slots, so that they cannot fill the memory together.
const SMALL: usize = 256 * 1024;

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
    Broken(axum::Error),
    #[error(transparent)]
    Slow(#[from] Slow),
    #[error("the server is stopping")]
    Stopping,
}

/// Reads `body`, at most `limit` bytes, until `deadline`. A body that arrives in one piece is not copied.
pub(crate) async fn collect(
    mut body: Body,
    limit: usize,
    large: &Semaphore,
    deadline: Deadline,
) -> Result<Collected<'_>, BodyError> {
    let expected = body.size_hint().lower();
    if expected > limit as u64 {
        return Err(BodyError::TooLarge(limit));
    }
    let mut slot = None;
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    loop {
        let frame = deadline.within("reading the request", body.frame()).await?;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else { continue };
        let length = first.len() + whole.len() + data.len();
        if length > limit {
            return Err(BodyError::TooLarge(limit));
        }
        if length > SMALL && slot.is_none() {
            let acquire = deadline.within("waiting for room for a large request", large.acquire());
            slot = Some(acquire.await?.map_err(|_| BodyError::Stopping)?);
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            // Room for what was announced, but no more than a slot covers before one is held.
            let announced = usize::try_from(expected).unwrap_or(limit);
            whole.reserve(announced.min(if slot.is_some() { limit } else { SMALL }).max(length));
            whole.extend_from_slice(&first);
            first = Bytes::new();
        }
        whole.extend_from_slice(&data);
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    Ok(Collected { bytes, _slot: slot })
}
