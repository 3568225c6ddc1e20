//! From changes of objects to the keys of what has to be reconciled.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tracing::error;

use crate::delays::Delays;
use crate::panics::contained_at_once;

/// Sends for each change the keys that `wanted` names, each after its time. A key that is due already is
/// not put off. Ends with the store or with the queue.
pub async fn forward<C, K: Clone + Ord, I: IntoIterator<Item = (K, Duration)>>(
    mut changes: UnboundedReceiver<C>,
    keys: UnboundedSender<K>,
    wanted: impl Fn(&C) -> I,
) {
    let mut delays = Delays::default();
    loop {
        tokio::select! {
            change = changes.recv() => {
                let Some(change) = change else { return };
                // What a defect makes of one change must not stop those of all other objects.
                let Some(wanted) = passing_over(|| wanted(&change).into_iter().collect::<Vec<_>>()) else { continue };
                for (key, pause) in wanted {
                    if !pause.is_zero() {
                        delays.put_no_later(key, pause);
                    } else if keys.send(key).is_err() {
                        return;
                    }
                }
            }
            Some(key) = delays.next(), if !delays.is_empty() => {
                if keys.send(key).is_err() {
                    return;
                }
            }
        }
    }
}

/// Does a piece of work about a change; where it panics, the change is passed over.
fn passing_over<T>(work: impl FnOnce() -> T) -> Option<T> {
    let outcome = contained_at_once(work);
    outcome.inspect_err(|panicked| error!(panic = panicked.message, "a change is passed over")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn keys_come_after_their_time_and_once() {
        let (changes, receiver) = unbounded_channel();
        let (keys, mut queue) = unbounded_channel();
        for seconds in [5, 0, 9, 3] {
            changes.send(seconds).unwrap();
        }
        let begun = Instant::now();
        let forwarded = forward(receiver, keys, |seconds| [((), Duration::from_secs(*seconds))]);
        let queued = async {
            let mut times = Vec::new();
            for _ in 0..2 {
                queue.recv().await.unwrap();
                times.push(begun.elapsed().as_secs());
            }
            assert_eq!(times, [0, 3]);
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(queue.try_recv().is_err(), "the later times were dropped");
            drop(changes);
        };
        tokio::join!(forwarded, queued);
    }

    #[tokio::test]
    async fn a_change_that_brings_out_a_defect_stops_no_other() {
        let (changes, receiver) = unbounded_channel();
        let (keys, mut queue) = unbounded_channel();
        for number in 0..3_u64 {
            changes.send(number).unwrap();
        }
        drop(changes);
        forward(receiver, keys, |number| {
            assert_ne!(*number, 1, "a defect");
            [(*number, Duration::ZERO)]
        })
        .await;
        let mut forwarded = Vec::new();
        queue.recv_many(&mut forwarded, 9).await;
        assert_eq!(forwarded, [0, 2]);
    }
}
