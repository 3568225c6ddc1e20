//! How a controller is put together: what it watches, what wakes it, and when it begins to work.

use std::sync::Arc;
use std::time::Duration;

use cluster::event_sender::{EventSender, PendingEvent, event_sender};
use cluster::events::Recorder;
use cluster::queue::serve;
pub(crate) use cluster::queue::{Next, QueueSettings, Reconciler};
use cluster::resource::Resource;
use cluster::triggers::forward;
use cluster::watched::Key;
use futures::future::{BoxFuture, join_all};
use kube::Client;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::store::follow::{Readable, follow_all};
use super::store::{Change, Kept, Store};
use crate::Context;
use crate::metrics::objects::Table;

/// Pause before an object is reconciled again that had changed when it was to be written to, where no watch reports it
/// sooner.
pub(crate) const OUTDATED_RETRY: Duration = Duration::from_secs(1);
/// The same, where somebody waits for what is asked for.
pub(crate) const QUICK_RETRY: Duration = Duration::from_millis(200);

/// Where keys that have to be reconciled are left, and where the queue takes them.
pub(crate) type Keys<K> = (UnboundedSender<K>, UnboundedReceiver<K>);

/// A controller that does not run yet.
pub(crate) struct Builder<R: Reconciler> {
    context: Context,
    settings: QueueSettings,
    reconciler: Arc<R>,
    keys: Keys<R::Key>,
    events: (EventSender, Receiver<PendingEvent>),
    /// What continues beside the queue.
    beside: Vec<BoxFuture<'static, ()>>,
    /// What has to end before the first reconcile.
    ready: Vec<BoxFuture<'static, ()>>,
}

impl<R: Reconciler> Builder<R> {
    /// A controller of this name that reconciles so many objects at a time. `action` is what its Events say that it does;
    /// `reconciler` leaves them with the event sender.
    pub(crate) fn new(
        context: &Context,
        settings: QueueSettings,
        action: &'static str,
        reconciler: impl FnOnce(EventSender) -> R,
    ) -> Self {
        let events = event_sender(action);
        Self {
            context: context.clone(),
            settings,
            reconciler: Arc::new(reconciler(events.0.clone())),
            keys: unbounded_channel(),
            events,
            beside: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Others leave keys too. Comes before what sends keys.
    pub(crate) fn keys(mut self, keys: Keys<R::Key>) -> Self {
        self.keys = keys;
        self
    }

    /// Watches all objects of a kind, which `store` keeps and which are counted as `cache`. Changes of them send the keys that
    /// `keys` names. The first reconcile begins when all were listed.
    pub(crate) fn watches<T: Readable, I: IntoIterator<Item = (R::Key, Duration)>>(
        self,
        kind: (Resource<'static>, &'static str),
        store: impl for<'r> Fn(&'r R) -> &'r Store<T> + Copy + Send + Sync + 'static,
        keys: impl Fn(&R, &Change<T>) -> I + Send + Sync + 'static,
    ) -> Self {
        let client = self.context.client.clone();
        self.watches_by(client, kind, store, keys)
    }

    /// [`watches`](Self::watches), by a client of its own.
    pub(crate) fn watches_by<T: Readable, I: IntoIterator<Item = (R::Key, Duration)>>(
        self,
        client: Client,
        (kind, cache): (Resource<'static>, &'static str),
        store: impl for<'r> Fn(&'r R) -> &'r Store<T> + Copy + Send + Sync + 'static,
        keys: impl Fn(&R, &Change<T>) -> I + Send + Sync + 'static,
    ) -> Self {
        let changes = store(&self.reconciler).subscribe();
        self.counts((cache, kind.kind), move |all| store(all).len())
            .beside(|all, _| async move { follow_all(&client, kind, store(&all)).await })
            .after(move |all| async move { store(&all).synced().await })
            .woken_by(changes, keys)
    }

    /// Has the objects of a cache and a kind counted.
    pub(crate) fn counts(
        self,
        (cache, kind): (&'static str, &'static str),
        count: impl Fn(&R) -> usize + Send + Sync + 'static,
    ) -> Self {
        self.context.metrics.caches.count(cache, kind, &self.reconciler, count);
        self
    }

    /// Has objects that it keeps shown by their [metrics](crate::metrics::objects). `all` gives them as they are kept,
    /// `object` what of that the table is about.
    pub(crate) fn shows<T: Send + Sync + 'static, O: 'static>(
        self,
        table: &'static Table<O>,
        all: impl Fn(&R) -> Vec<Arc<T>> + Send + Sync + 'static,
        object: fn(&T) -> &O,
    ) -> Self {
        self.context.metrics.objects.show(table, &self.reconciler, all, object);
        self
    }

    /// Sends the keys that `keys` names for each of these changes.
    pub(crate) fn woken_by<C: Send + 'static, I: IntoIterator<Item = (R::Key, Duration)>>(
        mut self,
        changes: UnboundedReceiver<C>,
        keys: impl Fn(&R, &C) -> I + Send + Sync + 'static,
    ) -> Self {
        let (sender, reconciler) = (self.keys.0.clone(), self.reconciler.clone());
        let forwarded = async move { forward(changes, sender, |change| keys(&reconciler, change)).await };
        self.beside.push(Box::pin(forwarded));
        self
    }

    /// [`woken_by`](Self::woken_by) several sources.
    pub(crate) fn woken_by_each<C: Send + 'static, I: IntoIterator<Item = (R::Key, Duration)>>(
        self,
        sources: Vec<UnboundedReceiver<C>>,
        keys: impl Fn(&R, &C) -> I + Copy + Send + Sync + 'static,
    ) -> Self {
        sources.into_iter().fold(self, |builder, changes| builder.woken_by(changes, keys))
    }

    /// Does something else all along, which may send keys.
    pub(crate) fn beside<F: Future<Output = ()> + Send + 'static>(
        mut self,
        work: impl FnOnce(Arc<R>, UnboundedSender<R::Key>) -> F,
    ) -> Self {
        self.beside.push(Box::pin(work(self.reconciler.clone(), self.keys.0.clone())));
        self
    }

    /// The first reconcile begins when this has ended.
    pub(crate) fn after<F: Future<Output = ()> + Send + 'static>(
        mut self,
        ready: impl FnOnce(Arc<R>) -> F,
    ) -> Self {
        self.ready.push(Box::pin(ready(self.reconciler.clone())));
        self
    }

    /// Runs it. Never returns.
    pub(crate) async fn run(self) {
        let Self { context, settings, reconciler, keys, events, beside, ready } = self;
        // The sender has to stay: the queue ends when there is none any more.
        let (_sender, keys) = keys;
        let ready = async { drop(join_all(ready).await) };
        let recorder = Recorder::new(context.client.clone(), settings.name, None);
        let queue = serve(settings, (recorder, &context.metrics.queues), ready, keys, reconciler, events);
        tokio::join!(queue, join_all(beside));
    }
}

/// The object that changed, at once, unless it is gone.
pub(crate) fn changed<R, T: Kept>(_: &R, change: &Change<T>) -> Option<(Key, Duration)> {
    change.new.as_ref().map(|new| (new.key(), Duration::ZERO))
}

/// The object that changed, was created or is gone, at once.
pub(crate) fn touched<R, T: Kept>(_: &R, change: &Change<T>) -> Option<(Key, Duration)> {
    change.states().next().map(|object| (object.key(), Duration::ZERO))
}
