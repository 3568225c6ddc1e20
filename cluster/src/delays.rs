//! Keys that are due later, each at one time.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

/// The longest pause: the queue panics where one ends in some years. A key that is due too early is only checked once
/// more.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Keys, and when they are due.
pub struct Delays<K> {
    queue: DelayQueue<K>,
    places: BTreeMap<K, delay_queue::Key>,
}

impl<K> Default for Delays<K> {
    fn default() -> Self {
        Self { queue: DelayQueue::new(), places: BTreeMap::new() }
    }
}

impl<K: Clone + Ord> Delays<K> {
    /// Whether no key is due, now or later.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Makes `key` due after `pause`, whenever it was due before.
    pub fn put(&mut self, key: K, pause: Duration) {
        let pause = pause.min(LONGEST);
        match self.places.get(&key) {
            Some(place) => self.queue.reset(place, pause),
            None => drop(self.places.insert(key.clone(), self.queue.insert(key, pause))),
        }
    }

    /// Makes `key` due after `pause` at the latest.
    pub fn put_no_later(&mut self, key: K, pause: Duration) {
        let pause = pause.min(LONGEST);
        let known = self.places.get(&key).map(|place| self.queue.deadline(place));
        if known.is_none_or(|known| Instant::now() + pause < known) {
            self.put(key, pause);
        }
    }

    /// Forgets when `key` is due.
    pub fn remove(&mut self, key: &K) {
        if let Some(place) = self.places.remove(key) {
            self.queue.remove(&place);
        }
    }

    /// The next key, once it is due; `None` at once where no key is.
    pub async fn next(&mut self) -> Option<K> {
        let key = poll_fn(|context| self.queue.poll_expired(context)).await?.into_inner();
        self.places.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_of_the_far_future_is_due_after_a_day() {
        let begun = Instant::now();
        let mut delays = Delays::default();
        delays.put("a", Duration::MAX);
        delays.put_no_later("b", Duration::MAX);
        for _ in 0..2 {
            assert!(delays.next().await.is_some());
            assert_eq!(begun.elapsed().as_secs(), LONGEST.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_is_due_once() {
        let begun = Instant::now();
        let mut delays = Delays::default();
        for (key, seconds) in [("a", 5), ("b", 9), ("c", 1), ("a", 7)] {
            delays.put(key, Duration::from_secs(seconds));
        }
        for (key, seconds) in [("a", 8), ("b", 3)] {
            delays.put_no_later(key, Duration::from_secs(seconds));
        }
        delays.remove(&"c");
        for (key, seconds) in [("b", 3), ("a", 7)] {
            assert_eq!(delays.next().await, Some(key));
            assert_eq!(begun.elapsed().as_secs(), seconds);
        }
        assert!(delays.is_empty() && delays.next().await.is_none());
    }
}
