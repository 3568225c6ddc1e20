//! How often a status that only counts is written.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cluster::watched::Key;
use tokio::time::Instant;

/// How often the status of one object is written at most.
const PACE: Duration = Duration::from_secs(3);

/// When the status of each object was written.
#[derive(Default)]
pub(crate) struct Paces(Mutex<HashMap<Key, Instant>>);

impl Paces {
    /// How long to wait before the status of an object may be written; `None` where it is written now. What is urgent
    /// does not wait.
    pub(crate) fn wait(&self, key: &Key, is_urgent: bool) -> Option<Duration> {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = paces.get(key).map(|last| PACE.saturating_sub(last.elapsed()));
        match last.filter(|left| !left.is_zero() && !is_urgent) {
            Some(left) => Some(left),
            None => {
                paces.insert(key.clone(), Instant::now());
                None
            }
        }
    }

    /// The object is over, or gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_status_is_written_at_most_once_in_three_seconds_unless_it_is_urgent() {
        let paces = Paces::default();
        let key = ("shop".to_owned(), "a".to_owned());
        assert_eq!(paces.wait(&key, false), None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(paces.wait(&key, false), Some(Duration::from_secs(2)));
        assert_eq!(paces.wait(&key, true), None);
        tokio::time::sleep(PACE).await;
        assert_eq!(paces.wait(&key, false), None);
        paces.forget(&key);
        assert_eq!(paces.wait(&key, false), None);
    }
}
