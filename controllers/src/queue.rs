//! A work queue: each key once, several workers, failed keys again after growing pauses.
//!
//! One task owns the state, so nothing is locked. Invariants:
//! 1. a key is never reconciled by two workers at once;
//! 2. a key that is added while it is reconciled is reconciled again afterwards;
//! 3. a reconcile that panics counts as failed and affects no other key;
//! 4. a key is due at one later time at most, the one that its latest reconcile asked for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{Debug, Display};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use crate::metrics::{self, Metrics};

/// First pause after a failure; doubled with each further one (spec 00 §3.2).
const BASE_DELAY: Duration = Duration::from_millis(5);
/// Longest pause after a failure. OpenKruise's is 1000 s; here nothing waits longer than ten minutes to be
/// looked at.
const MAX_DELAY: Duration = Duration::from_secs(600);
/// How old the measures of reconciles under way may be.
const OBSERVATION: Duration = Duration::from_secs(1);

/// What a reconcile asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until the object changes.
    Done,
    /// To be reconciled again after this time.
    After(Duration),
}

/// How one controller runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The controller's name in metrics and logs.
    pub name: &'static str,
    /// How many reconciles may run at a time.
    pub workers: usize,
}

struct Queue<K> {
    ready: VecDeque<K>,
    /// The keys of `ready`, and since when they wait.
    waiting: BTreeMap<K, Instant>,
    running: BTreeMap<Id, (K, Instant)>,
    again: BTreeSet<K>,
    /// When a key is due, and the same by time. A key has one due time at most: the latest reconcile
    /// decides, so taking the key forgets it.
    due: BTreeMap<K, Instant>,
    delayed: BTreeSet<(Instant, K)>,
    failures: BTreeMap<K, u32>,
}

/// Reconciles the keys that arrive on `keys` until its senders are gone and everything is done.
pub async fn run<K, F, E>(
    settings: Settings,
    metrics: &Metrics,
    mut keys: mpsc::UnboundedReceiver<K>,
    reconcile: impl Fn(K) -> F,
) where
    K: Clone + Debug + Ord + Send + 'static,
    F: Future<Output = Result<Next, E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let mut queue: Queue<K> = Queue::new();
    let mut workers: JoinSet<Result<Next, E>> = JoinSet::new();
    metrics.set_workers(settings.name, settings.workers);
    let mut open = true;
    while open || !queue.is_idle() {
        while workers.len() < settings.workers
            && let Some((key, waited)) = queue.take()
        {
            metrics.taken(settings.name, waited);
            let id = workers.spawn(reconcile(key.clone())).id();
            queue.running.insert(id, (key, Instant::now()));
        }
        metrics.observe(
            settings.name,
            queue.ready.len(),
            queue.running.values().map(|(_, since)| since.elapsed()),
        );
        let wake = queue.delayed.first().map(|(due, _)| *due);
        tokio::select! {
            key = keys.recv(), if open => match key {
                Some(key) => {
                    metrics.added(settings.name);
                    queue.add(key);
                }
                None => open = false,
            },
            Some(finished) = workers.join_next_with_id() => queue.finish(settings, metrics, finished),
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => queue.wake(Instant::now()),
            // Work that hangs wakes nobody, and must show all the same.
            () = sleep(OBSERVATION), if !workers.is_empty() => {}
        }
    }
}

impl<K: Clone + Debug + Ord> Queue<K> {
    fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            again: BTreeSet::new(),
            due: BTreeMap::new(),
            delayed: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }

    fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty() && self.delayed.is_empty()
    }

    fn add(&mut self, key: K) {
        if self.running.values().any(|(running, _)| *running == key) {
            self.again.insert(key);
        } else if !self.waiting.contains_key(&key) {
            self.waiting.insert(key.clone(), Instant::now());
            self.ready.push_back(key);
        }
    }

    /// The next key, and how long it has waited.
    fn take(&mut self) -> Option<(K, Duration)> {
        let key = self.ready.pop_front()?;
        let waited = self.waiting.remove(&key).map(|since| since.elapsed()).unwrap_or_default();
        if let Some(due) = self.due.remove(&key) {
            self.delayed.remove(&(due, key.clone()));
        }
        Some((key, waited))
    }

    /// Makes `key` due; called only after [`Self::take`], which has forgotten any earlier time.
    fn delay(&mut self, key: K, due: Instant) {
        self.due.insert(key.clone(), due);
        self.delayed.insert((due, key));
    }

    fn wake(&mut self, now: Instant) {
        while let Some((due, _)) = self.delayed.first()
            && *due <= now
            && let Some((_, key)) = self.delayed.pop_first()
        {
            self.due.remove(&key);
            self.add(key);
        }
    }

    fn finish<E: Display>(
        &mut self,
        settings: Settings,
        metrics: &Metrics,
        finished: Result<(Id, Result<Next, E>), JoinError>,
    ) {
        let (id, outcome) = match finished {
            Ok((id, outcome)) => (id, outcome.map_err(|error| error.to_string())),
            Err(error) => {
                if error.is_panic() {
                    metrics.panicked(settings.name);
                }
                (error.id(), Err(error.to_string()))
            }
        };
        let Some((key, since)) = self.running.remove(&id) else { return };
        let result = match outcome {
            Ok(next) => {
                self.failures.remove(&key);
                if let Next::After(pause) = next {
                    self.delay(key.clone(), Instant::now() + pause);
                    metrics::Result::RequeueAfter
                } else {
                    metrics::Result::Success
                }
            }
            Err(error) => {
                let failures = self.failures.entry(key.clone()).or_default();
                let pause = backoff(*failures);
                *failures = failures.saturating_add(1);
                warn!(
                    controller = settings.name,
                    ?key,
                    error,
                    ?pause,
                    "reconcile failed, will be tried again"
                );
                metrics.retried(settings.name);
                self.delay(key.clone(), Instant::now() + pause);
                metrics::Result::Error
            }
        };
        metrics.finished(settings.name, result, since.elapsed());
        if self.again.remove(&key) {
            self.add(key);
        }
    }
}

fn backoff(failures: u32) -> Duration {
    planner::text::backoff::doubled((BASE_DELAY, MAX_DELAY), failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn metrics() -> Metrics {
        Metrics::register(&prometheus::Registry::new(), "test").unwrap()
    }

    const SETTINGS: Settings = Settings { name: "test", workers: 2 };

    #[tokio::test(start_paused = true)]
    async fn a_key_added_twice_is_reconciled_once() {
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(1).unwrap();
        sender.send(1).unwrap();
        drop(sender);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        run(Settings { workers: 1, ..SETTINGS }, &metrics(), receiver, move |_: i32| {
            let counted = counted.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, String>(Next::Done)
            }
        })
        .await;
        // The second add arrives while the first is under way: invariant 2 allows two, never more.
        assert!((1..=2).contains(&count.load(Ordering::SeqCst)));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_and_panics_are_tried_again_and_leave_others_alone() {
        let (sender, receiver) = mpsc::unbounded_channel();
        for key in 0..3 {
            sender.send(key).unwrap();
        }
        drop(sender);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        run(SETTINGS, &metrics(), receiver, move |key: i32| {
            let counted = counted.clone();
            async move {
                let call = counted.fetch_add(1, Ordering::SeqCst);
                match (key, call) {
                    (0, 0..=2) => Err("not yet".to_owned()),
                    (1, 0..=2) => panic!("poisoned object"),
                    _ => Ok(Next::Done),
                }
            }
        })
        .await;
        assert!(calls.load(Ordering::SeqCst) >= 5, "two keys fail at least once, three succeed");
    }

    #[tokio::test(start_paused = true)]
    async fn no_key_is_reconciled_twice_at_once() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let active = Arc::new(AtomicUsize::new(0));
        let watched = active.clone();
        let again = sender.clone();
        sender.send(7).unwrap();
        drop(sender);
        let rounds = Arc::new(AtomicUsize::new(0));
        let counted = rounds.clone();
        let again = Arc::new(std::sync::Mutex::new(Some(again)));
        run(SETTINGS, &metrics(), receiver, move |key: i32| {
            let (watched, counted, again) = (watched.clone(), counted.clone(), again.clone());
            async move {
                assert_eq!(watched.fetch_add(1, Ordering::SeqCst), 0);
                if let Some(sender) = again.lock().unwrap().take() {
                    sender.send(key).unwrap();
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                watched.fetch_sub(1, Ordering::SeqCst);
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, String>(Next::Done)
            }
        })
        .await;
        assert_eq!(rounds.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_due_once_however_often_its_object_changed() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, metrics) = (count.clone(), metrics());
        let queue = run(SETTINGS, &metrics, receiver, move |_: i32| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, String>(Next::After(Duration::from_secs(300))) }
        });
        let changes = async {
            for _ in 0..10 {
                sender.send(1).unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            tokio::time::sleep(Duration::from_secs(990)).await;
        };
        tokio::select! {
            () = queue => panic!("the queue is open"),
            () = changes => {}
        }
        // Ten changes, and then after 309, 609 and 909 seconds.
        assert_eq!(count.load(Ordering::SeqCst), 13);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_done_is_not_due_any_more() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, metrics) = (count.clone(), metrics());
        let queue = run(SETTINGS, &metrics, receiver, move |_: i32| {
            let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            async move { Ok::<_, String>(if first { Next::After(Duration::from_secs(300)) } else { Next::Done }) }
        });
        let changes = async {
            for _ in 0..2 {
                sender.send(1).unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            drop(sender);
        };
        tokio::join!(queue, changes);
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn times_of_waiting_and_working_are_measured_while_the_work_goes_on() {
        let registry = prometheus::Registry::new();
        let metrics = Metrics::register(&registry, "test").unwrap();
        let value = |name: &str| {
            let families = registry.gather();
            let family = families.iter().find(|family| family.name() == name).unwrap();
            let metric = &family.get_metric()[0];
            metric.get_gauge().get_value() + metric.get_histogram().get_sample_sum()
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        drop(sender);
        let work = async |_: i32| {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok::<_, String>(Next::Done)
        };
        let queue = run(Settings { workers: 1, ..SETTINGS }, &metrics, receiver, work);
        // Timers are exact to a few milliseconds.
        let near =
            |name: &str, wanted: f64| assert!((value(name) - wanted).abs() < 0.1, "{name}: {}", value(name));
        let observer = async {
            tokio::time::sleep(Duration::from_millis(5500)).await;
            near("workqueue_longest_running_processor_seconds", 5.0);
            near("workqueue_unfinished_work_seconds", 5.0);
            near("workqueue_depth", 1.0);
        };
        tokio::join!(queue, observer);
        near("workqueue_queue_duration_seconds", 10.0);
        near("workqueue_work_duration_seconds", 20.0);
    }

    #[test]
    fn pauses_grow_up_to_the_limit() {
        assert_eq!(backoff(0), Duration::from_millis(5));
        assert_eq!(backoff(3), Duration::from_millis(40));
        assert_eq!(backoff(40), Duration::from_secs(600), "each object is looked at every ten minutes");
    }
}
