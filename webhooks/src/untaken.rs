//! Answers until their callers have taken them: bounded in bytes and in time
//! (docs/behaviour/server.md#overload).
//!
//! An answer stays in memory until its last byte is written, and a caller need not read. So what an answer holds is
//! bound to its bytes, which go through HTTP and TLS without a copy, and is free when these are.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use crate::body::{BodyMemory, Held};

/// An answer up to this size is small, as nearly all are: it is counted by an addition.
const SMALL: usize = 64 * 1024;
/// Time to take any other answer, and the rate at which a long one is to be taken besides.
const TAKING: Duration = Duration::from_secs(5);
const BYTES_PER_MILLISECOND: usize = 4096;

/// The answers of one connection that are not written yet. Clones are of the same connection.
#[derive(Clone, Debug, Default)]
pub struct Untaken {
    overdue: Arc<Notify>,
}

/// An answer with what it holds.
struct Answer {
    bytes: Vec<u8>,
    /// Where it is lent its bytes.
    lent: Option<Arc<BodyMemory>>,
    _held: Held,
    /// Tells by its end that the answer is taken.
    _taken: Option<oneshot::Sender<()>>,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(memory) = &self.lent {
            memory.give_back(self.bytes.capacity());
        }
    }
}

impl Untaken {
    /// The answer to a question of `peer` that holds `held`. The answer to one in a large place keeps this place;
    /// any other counts against `memory`, and there is none where that has no room.
    pub(crate) fn keep(
        &self,
        bytes: Vec<u8>,
        peer: IpAddr,
        memory: &Arc<BodyMemory>,
        held: Held,
    ) -> Option<Bytes> {
        let size = bytes.capacity();
        if held.is_place() {
            return Some(self.timed(bytes, held));
        }
        drop(held);
        if size <= SMALL && memory.lend(size) {
            let lent = Some(memory.clone());
            return Some(Bytes::from_owner(Answer { bytes, lent, _held: Held::default(), _taken: None }));
        }
        Some(self.timed(bytes, memory.at_once(peer, size)?))
    }

    /// Waits until an answer was not taken in its time.
    pub(crate) async fn overdue(&self) {
        self.overdue.notified().await;
    }

    fn timed(&self, bytes: Vec<u8>, held: Held) -> Bytes {
        let rate = Duration::from_millis((bytes.len() / BYTES_PER_MILLISECOND) as u64);
        let (end, taken) = oneshot::channel();
        let overdue = self.overdue.clone();
        tokio::spawn(async move {
            if timeout(TAKING + rate, taken).await.is_err() {
                overdue.notify_one();
            }
        });
        Bytes::from_owner(Answer { bytes, lent: None, _held: held, _taken: Some(end) })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test(start_paused = true)]
    async fn what_is_not_taken_is_bounded_in_bytes_and_in_time() {
        let memory = BodyMemory::new(1 << 20, 1 << 20);
        let untaken = Untaken::default();
        let keep = |size| untaken.keep(vec![b' '; size], PEER, &memory, Held::default());
        let small: Vec<_> = (0..16).map(|_| keep(SMALL).unwrap()).collect();
        tokio::time::sleep(TAKING * 10).await;
        assert!(untaken.overdue().now_or_never().is_none());
        let large = keep(1 << 20).unwrap();
        assert!(keep(1).is_none(), "no memory is left");
        // A part of an answer holds all of it.
        let part = large.slice(1..2);
        drop(large);
        assert!(keep(1).is_none());
        drop(part);
        drop(keep(1 << 20).unwrap());
        tokio::time::sleep(TAKING * 10).await;
        assert!(untaken.overdue().now_or_never().is_none(), "all were taken");
        let late = keep(1).unwrap();
        tokio::time::sleep(TAKING * 2).await;
        assert!(untaken.overdue().now_or_never().is_some());
        drop((small, late));
        assert!((0..16).map(|_| keep(SMALL)).collect::<Option<Vec<_>>>().is_some());
        assert!(memory.lend(1 << 20), "all were given back");
    }
}
