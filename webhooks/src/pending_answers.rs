//! Answers until their callers have taken them: bounded in bytes and in time
//! (docs/behaviour/server.md#overload).
//!
//! An answer stays in memory until its last byte is written, and a caller need not read. So what an answer holds is
//! bound to its bytes, which go through HTTP and TLS without a copy, and is free when these are.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::body::{BodyMemory, Held};

/// An answer up to this size is small, as nearly all are: it is counted by an addition.
const SMALL: usize = 64 * 1024;
/// Time to take an answer, and the rate at which a long one is to be taken besides.
const TAKING: Duration = Duration::from_secs(5);
const BYTES_PER_MILLISECOND: usize = 4096;

/// The answers of one connection that are not written yet. Clones are of the same connection.
#[derive(Clone, Debug, Default)]
pub struct PendingAnswers(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// When each answer has to be taken. As many as the caller has calls at a time.
    due: Mutex<Vec<Instant>>,
    /// One has to be taken before all others.
    first: Notify,
}

impl Waiting {
    // Held for single operations only, never over an await.
    fn due(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer with what it holds.
struct Answer {
    bytes: Vec<u8>,
    /// Where it is lent its bytes.
    lent: Option<Arc<BodyMemory>>,
    _held: Held,
    connection: PendingAnswers,
    due: Instant,
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
        let mut due = self.connection.0.due();
        if let Some(place) = due.iter().position(|due| *due == self.due) {
            due.swap_remove(place);
        }
    }
}

impl PendingAnswers {
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
        let (lent, held) = if held.has_slot() {
            (None, held)
        } else {
            drop(held);
            if size <= SMALL && memory.lend(size) {
                (Some(memory.clone()), Held::default())
            } else {
                (None, memory.at_once(peer, size)?)
            }
        };
        let rate = Duration::from_millis((bytes.len() / BYTES_PER_MILLISECOND) as u64);
        let due = Instant::now() + TAKING + rate;
        self.await_until(due);
        Some(Bytes::from_owner(Answer { bytes, lent, _held: held, connection: self.clone(), due }))
    }

    fn await_until(&self, moment: Instant) {
        let mut due = self.0.due();
        if due.iter().all(|other| moment < *other) {
            self.0.first.notify_one();
        }
        due.push(moment);
    }

    /// Waits until an answer was not taken in its time.
    pub(crate) async fn overdue(&self) {
        loop {
            let due = self.0.due().iter().min().copied();
            let first = self.0.first.notified();
            match due {
                None => first.await,
                Some(due) => {
                    if timeout_at(due, first).await.is_err() && self.0.due().contains(&due) {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn what_is_not_taken_is_bounded_in_bytes() {
        let memory = BodyMemory::new(1 << 20, 1 << 20);
        let pending_answers = PendingAnswers::default();
        let keep = |size| pending_answers.keep(vec![b' '; size], PEER, &memory, Held::default());
        let small: Vec<_> = (0..16).map(|_| keep(SMALL).unwrap()).collect();
        let large = keep(1 << 20).unwrap();
        assert!(keep(1).is_none(), "no memory is left");
        // A part of an answer holds all of it.
        let part = large.slice(1..2);
        drop(large);
        assert!(keep(1).is_none());
        drop(part);
        drop(keep(1 << 20).unwrap());
        drop(small);
        assert!((0..16).map(|_| keep(SMALL)).collect::<Option<Vec<_>>>().is_some());
        assert!(memory.lend(1 << 20), "all were given back");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_of_any_size_have_a_time() {
        let memory = BodyMemory::new(32 << 20, 32 << 20);
        for (before, size, time) in [(1, 16 << 20, 9), (16 << 20, 1, 5), (1, 1, 5)] {
            let pending_answers = PendingAnswers::default();
            let keep = |size| pending_answers.keep(vec![b' '; size], PEER, &memory, Held::default()).unwrap();
            // Waits before there is an answer, and continues when one is taken.
            let overdue = pending_answers.clone();
            let mut overdue = tokio::spawn(async move { overdue.overdue().await });
            sleep(TAKING * 2).await;
            let taken = keep(before);
            sleep(TAKING / 2).await;
            let began = Instant::now();
            let left = keep(size);
            sleep(TAKING / 4).await;
            drop(taken);
            timeout(TAKING * 10, &mut overdue).await.unwrap().unwrap();
            assert_eq!(began.elapsed().as_secs(), time, "{size} bytes");
            drop(left);
            assert!(timeout(TAKING * 10, pending_answers.overdue()).await.is_err(), "all are taken");
        }
    }
}
