//! A work queue: each key once, several workers, failed keys again after growing pauses.
//!
//! One task owns the state, so nothing is locked. Invariants:
//! 1. a key is never reconciled by two workers at once;
//! 2. a key that is added while it is reconciled is reconciled again afterwards;
//! 3. a reconcile that panics counts as failed and affects no other key: the panic is counted, and an Event on
//!    the object reports it;
//! 4. a key is due at one later time at most, the one that its latest reconcile asked for;
//! 5. what the API server refuses because the namespace is being deleted ends the work for the key, without
//!    a word.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{Debug, Display};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::warn;
use values::backoff::doubled;

use crate::delays::Delays;
use crate::error::Retry;
use crate::event_sender::{self, EventSender, PendingEvent};
use crate::events::Recorder;
use crate::panics::{Panicked, contained};

pub use metrics::QueueMetrics;

mod metrics;

/// The first pause after a failure and the longest. OpenKruise's longest is 1000 s; here nothing waits longer than ten
/// minutes to be looked at.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(600));
/// How old the measures of reconciles in progress may be.
const OBSERVATION: Duration = Duration::from_secs(1);

/// What a reconcile asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until the object changes.
    Done,
    /// To be reconciled again after this time.
    After(Duration),
}

/// Why a reconcile failed.
pub trait Failure: Display + Send + 'static {
    /// When to try again.
    fn retry(&self) -> Retry;

    /// The first pause after such a failure, which is doubled with each further one, and the longest.
    fn pauses(&self) -> (Duration, Duration) {
        PAUSES
    }
}

/// A controller, as its queue calls it.
pub trait Reconciler: Send + Sync + 'static {
    /// What objects are known by.
    type Key: Clone + Debug + Ord + Send + Sync + 'static;
    /// Why a reconcile may fail.
    type Error: Failure;

    /// Brings the object of this key closer to what is wanted.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// The object, as Events refer to it; `None` where it is gone.
    fn object(&self, key: &Self::Key) -> Option<ObjectReference>;

    /// The reconcile of this key panicked: a controller that is told about many changes lets it rest.
    fn panicked(&self, _key: &Self::Key) {}
}

/// How one queue runs.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// The controller's name in metrics, Events and logs.
    pub name: &'static str,
    /// How many reconciles may run at a time.
    pub workers: usize,
}

/// A reconcile that failed.
struct Failed {
    retry: Retry,
    pauses: (Duration, Duration),
    message: String,
}

type Outcome<E> = Result<Result<Next, E>, Panicked>;

struct Queue<K> {
    ready: VecDeque<K>,
    /// The keys of `ready`, and since when they wait.
    waiting: BTreeMap<K, Instant>,
    running: BTreeMap<Id, (K, Instant)>,
    again: BTreeSet<K>,
    /// The latest reconcile decides when a key is due: taking the key forgets the time.
    delays: Delays<K>,
    failures: BTreeMap<K, u32>,
}

/// Reconciles the keys that arrive on `keys` once `ready` has ended, and writes the Events that are left with
/// `event_sender`. Never returns as long as the sender of keys is there.
pub async fn serve<R: Reconciler>(
    settings: QueueSettings,
    (recorder, metrics): (Recorder, &QueueMetrics),
    ready: impl Future<Output = ()>,
    keys: mpsc::UnboundedReceiver<R::Key>,
    reconciler: Arc<R>,
    (event_sender, mut reported): (EventSender, mpsc::Receiver<PendingEvent>),
) {
    let work = async move { run(settings, metrics, &event_sender, ready, keys, reconciler).await };
    tokio::join!(work, event_sender::write(&recorder, &mut reported));
}

/// Reconciles the keys that arrive on `keys` until its senders are gone and everything is done. It begins once `ready`
/// has ended; keys are taken in before, so that a list of all objects leaves each key once.
pub async fn run<R: Reconciler>(
    settings: QueueSettings,
    metrics: &QueueMetrics,
    event_sender: &EventSender,
    ready: impl Future<Output = ()>,
    mut keys: mpsc::UnboundedReceiver<R::Key>,
    reconciler: Arc<R>,
) {
    let mut queue: Queue<R::Key> = Queue::new();
    let mut workers: JoinSet<Outcome<R::Error>> = JoinSet::new();
    metrics.set_workers(settings.name, settings.workers);
    let observed = Observed { metrics, name: settings.name };
    let mut ready = pin!(ready);
    let (mut open, mut begun) = (true, false);
    while open || !queue.is_idle() {
        while begun
            && workers.len() < settings.workers
            && let Some((key, waited)) = queue.take()
        {
            metrics.taken(settings.name, waited);
            let (reconciler, taken) = (reconciler.clone(), key.clone());
            // What a panic leaves half done is in caches, whose locks do not mind, or is written anew.
            let work = async move { contained(reconciler.reconcile(&taken)).await };
            queue.running.insert(workers.spawn(work).id(), (key, Instant::now()));
        }
        let running = queue.running.values().map(|(_, since)| since.elapsed());
        metrics.observe(observed.name, queue.ready.len(), running);
        tokio::select! {
            () = &mut ready, if !begun => begun = true,
            key = keys.recv(), if open => match key {
                Some(key) => {
                    metrics.added(settings.name);
                    queue.add(key);
                }
                None => open = false,
            },
            Some(finished) = workers.join_next_with_id() => {
                let Some((key, since, outcome)) = queue.finished(finished) else { continue };
                if let Err(Panicked { message, .. }) = &outcome {
                    metrics.panicked(settings.name);
                    reconciler.panicked(&key);
                    if let Some(object) = reconciler.object(&key) {
                        event_sender.record_panic(object, settings.name, message);
                    }
                }
                let outcome = match outcome {
                    Ok(Ok(next)) => Ok(next),
                    Ok(Err(error)) => {
                        let (retry, pauses) = (error.retry(), error.pauses());
                        Err(Failed { retry, pauses, message: error.to_string() })
                    }
                    Err(Panicked { message, .. }) => {
                        let message = format!("a defect of the controller: {message}");
                        Err(Failed { retry: Retry::WhenHealthy, pauses: PAUSES, message })
                    }
                };
                let result = queue.settle(settings, metrics, key, outcome);
                metrics.finished(settings.name, result, since.elapsed());
            }
            Some(key) = queue.delays.next(), if !queue.delays.is_empty() => queue.add(key),
            // Work that hangs wakes nobody, and must show all the same.
            () = sleep(OBSERVATION), if !workers.is_empty() => {}
        }
    }
}

/// The measures of a queue: once it is dropped it has nothing to do any more.
struct Observed<'a> {
    metrics: &'a QueueMetrics,
    name: &'static str,
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        self.metrics.observe(self.name, 0, std::iter::empty());
    }
}

impl<K: Clone + Debug + Ord> Queue<K> {
    fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            again: BTreeSet::new(),
            delays: Delays::default(),
            failures: BTreeMap::new(),
        }
    }

    fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty() && self.delays.is_empty()
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
        self.delays.remove(&key);
        Some((key, waited))
    }

    /// The key whose reconcile ended, and since when it ran.
    fn finished<E>(
        &mut self,
        finished: Result<(Id, Outcome<E>), JoinError>,
    ) -> Option<(K, Instant, Outcome<E>)> {
        let (id, outcome) = match finished {
            Ok(finished) => finished,
            // Panics are contained, and nothing is cancelled.
            Err(error) => {
                let message = error.to_string();
                (error.id(), Err(Panicked { message, ..Panicked::default() }))
            }
        };
        let (key, since) = self.running.remove(&id)?;
        Some((key, since, outcome))
    }

    /// Takes in what came of a reconcile.
    fn settle(
        &mut self,
        settings: QueueSettings,
        metrics: &QueueMetrics,
        key: K,
        outcome: Result<Next, Failed>,
    ) -> metrics::Result {
        let result = match outcome {
            Err(Failed { retry, pauses, message }) if retry != Retry::Never => {
                let failures = self.failures.entry(key.clone()).or_default();
                let pause = doubled(pauses, *failures);
                *failures = failures.saturating_add(1);
                warn!(
                    controller = settings.name,
                    ?key,
                    error = message,
                    ?pause,
                    "reconcile failed, will be tried again"
                );
                metrics.retried(settings.name);
                self.delays.put(key.clone(), pause);
                metrics::Result::Error
            }
            outcome => {
                self.failures.remove(&key);
                if let Ok(Next::After(pause)) = outcome {
                    self.delays.put(key.clone(), pause);
                    metrics::Result::RequeueAfter
                } else {
                    metrics::Result::Success
                }
            }
        };
        if self.again.remove(&key) {
            self.add(key);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiError;
    use kit::double as fake;
    use std::future::ready;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::timeout;

    #[derive(Debug, thiserror::Error)]
    enum Refused {
        #[error("{0}")]
        Api(#[from] ApiError),
        #[error("{0}")]
        Action(String),
    }

    impl Failure for Refused {
        fn retry(&self) -> Retry {
            match self {
                Self::Api(error) => error.retry(),
                Self::Action(_) => Retry::WhenHealthy,
            }
        }
    }

    /// Reconciles by a closure.
    struct Closure<F>(F);

    impl<F, W> Reconciler for Closure<F>
    where
        F: Fn(i32) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Next, String>> + Send + 'static,
    {
        type Key = i32;
        type Error = Refused;

        async fn reconcile(&self, key: &i32) -> Result<Next, Refused> {
            (self.0)(*key).await.map_err(Refused::Action)
        }

        fn object(&self, key: &i32) -> Option<ObjectReference> {
            Some(crate::events::about("v1", "Thing", &format!("thing-{key}"), "u"))
        }
    }

    async fn run<F, W>(
        settings: QueueSettings,
        metrics: &QueueMetrics,
        keys: mpsc::UnboundedReceiver<i32>,
        reconcile: F,
    ) where
        F: Fn(i32) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Next, String>> + Send + 'static,
    {
        let (event_sender, _events) = event_sender::event_sender("Reconcile");
        super::run(settings, metrics, &event_sender, ready(()), keys, Arc::new(Closure(reconcile))).await;
    }

    fn metrics() -> QueueMetrics {
        QueueMetrics::register(&prometheus::Registry::new()).unwrap()
    }

    const SETTINGS: QueueSettings = QueueSettings { name: "test", workers: 2 };

    #[tokio::test(start_paused = true)]
    async fn a_key_added_twice_is_reconciled_once() {
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(1).unwrap();
        sender.send(1).unwrap();
        drop(sender);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        run(QueueSettings { workers: 1, ..SETTINGS }, &metrics(), receiver, move |_: i32| {
            let counted = counted.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, String>(Next::Done)
            }
        })
        .await;
        // The second add arrives while the first is in progress: invariant 2 allows two, never more.
        assert!((1..=2).contains(&count.load(Ordering::SeqCst)));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_wait_once_each_until_the_first_reconcile_may_begin() {
        let (sender, receiver) = mpsc::unbounded_channel();
        for key in [1, 2, 1, 2, 1] {
            sender.send(key).unwrap();
        }
        drop(sender);
        let (begin, reconciled) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
        let noted = reconciled.clone();
        let reconcile = move |key: i32| {
            noted.lock().unwrap().push((key, begin.elapsed()));
            std::future::ready(Ok::<_, String>(Next::Done))
        };
        let (event_sender, _events) = event_sender::event_sender("Reconcile");
        let listed = sleep(Duration::from_secs(1));
        super::run(SETTINGS, &metrics(), &event_sender, listed, receiver, Arc::new(Closure(reconcile))).await;
        assert_eq!(*reconciled.lock().unwrap(), [1, 2].map(|key| (key, Duration::from_secs(1))));
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
        let metrics = QueueMetrics::register(&registry).unwrap();
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
        let queue = run(QueueSettings { workers: 1, ..SETTINGS }, &metrics, receiver, work);
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
        assert_eq!(doubled(PAUSES, 0), Duration::from_millis(5));
        assert_eq!(doubled(PAUSES, 3), Duration::from_millis(40));
        assert_eq!(
            doubled(PAUSES, 40),
            Duration::from_secs(600),
            "each object is looked at every ten minutes"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_counted_and_told_on_its_object_while_the_others_go_on() {
        let (client, requests) = fake::api_server(|request| match request.method {
            "POST" => (201, request.body.to_owned()),
            _ => (200, request.body.to_owned()),
        });
        let registry = prometheus::Registry::new();
        let metrics = QueueMetrics::register(&registry).unwrap();
        let (sender, keys) = mpsc::unbounded_channel();
        for key in 0..10 {
            sender.send(key).unwrap();
        }
        let done = Arc::new(Mutex::new(Vec::new()));
        let reconciled = done.clone();
        // One worker: a poisoned object must not keep it.
        let settings = QueueSettings { name: "test-controller", workers: 1 };
        let reconcile = Closure(move |key: i32| {
            let reconciled = reconciled.clone();
            async move {
                assert_ne!(key, 3, "poisoned");
                reconciled.lock().unwrap().push(key);
                Ok(Next::Done)
            }
        });
        let (event_sender, mut reported) = event_sender::event_sender("Reconcile");
        let recorder = Recorder::new(client, settings.name, None);
        let work = super::run(settings, &metrics, &event_sender, ready(()), keys, Arc::new(reconcile));
        let work = async { tokio::join!(work, event_sender::write(&recorder, &mut reported)) };
        drop(timeout(Duration::from_secs(1), work).await);
        assert_eq!(*done.lock().unwrap(), [0, 1, 2, 4, 5, 6, 7, 8, 9]);

        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let name = r#"kutter_reconcile_panics_total{controller="test-controller"} "#;
        let panics: u32 = text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap();
        assert!((5..12).contains(&panics), "{panics}, with growing pauses");

        let requests = requests.lock().unwrap();
        let events: Vec<_> = requests.iter().filter(|request| request.starts_with("POST ")).collect();
        assert_eq!(events.len(), 1, "further ones are counted up: {events:#?}");
        for part in ["/events ", "thing-3", "ReconcilePanicked", "Warning", "poisoned"] {
            assert!(events[0].contains(part), "{part} in {}", events[0]);
        }
    }

    /// Asks for what the API server refuses since the namespace ends.
    struct InNamespaceThatEnds(kube::Client, AtomicUsize);

    impl Reconciler for InNamespaceThatEnds {
        type Key = i32;
        type Error = Refused;

        async fn reconcile(&self, _key: &i32) -> Result<Next, Refused> {
            self.1.fetch_add(1, Ordering::SeqCst);
            let pods = crate::resource::PODS.namespaced("n");
            crate::write::create(&self.0, &pods, "{}".to_owned()).await?;
            Ok(Next::Done)
        }

        fn object(&self, _key: &i32) -> Option<ObjectReference> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_namespace_that_ends_refuses_is_not_tried_again() {
        let (client, _requests) = fake::api_server(|_| fake::namespace_ends());
        let (sender, keys) = mpsc::unbounded_channel();
        sender.send(1).unwrap();
        let (event_sender, mut reported) = event_sender::event_sender("Reconcile");
        let registry = prometheus::Registry::new();
        let metrics = QueueMetrics::register(&registry).unwrap();
        let reconciler = Arc::new(InNamespaceThatEnds(client, AtomicUsize::new(0)));
        let work = super::run(SETTINGS, &metrics, &event_sender, ready(()), keys, reconciler.clone());
        drop(timeout(Duration::from_secs(3600), work).await);
        assert_eq!(reconciler.1.load(Ordering::SeqCst), 1);
        assert!(reported.try_recv().is_err(), "no Event");
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(!text.contains("controller_runtime_reconcile_errors_total{"), "no failure: {text}");
    }
}
