//! The object of a kind that is named like the node, and whose status the agent writes: as the watch shows it and own
//! writes leave it, whichever is newer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::kinds::Object;
use cluster::ApiError;
use cluster::events::Allowance;
use cluster::follow::{follow_patiently, readable};
use cluster::resource::Resource;
use cluster::store::{Change, Identity, Store};
use cluster::write::{PatchKind, patch};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};
use values::backoff::doubled;

/// So many writes of the status at once, and one more after each such time.
const WRITES: (u32, Duration) = (5, Duration::from_secs(2));
/// The first pause and the longest after writes that failed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(50));
/// So many writes in a row may fail before it is trouble.
const TOLERATED: u32 = 3;

type Writes = FuturesUnordered<Pin<Box<dyn Future<Output = Result<String, ApiError>> + Send>>>;

/// The object.
pub(crate) struct Own<S, T> {
    client: Client,
    resource: Resource<'static>,
    stored: Arc<Store<Object<S, T>>>,
    changes: UnboundedReceiver<Change<Object<S, T>>>,
    /// The watch.
    following: BoxFuture<'static, ()>,
    /// The write that continues, at most one.
    writing: Writes,
    allowance: Allowance,
    /// Since when there is something to write, and how long others are waited for.
    unwritten: Option<(Instant, Duration)>,
    /// No write before this time.
    rest: Option<Instant>,
    failed: u32,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The object may have changed.
    ObjectVersion,
    /// It is time to write.
    Due,
}

impl<S, T> Own<S, T>
where
    Object<S, T>: DeserializeOwned + Send + Sync + 'static,
{
    /// The object of `node`. `synced` is set when it is known, or that there is none.
    pub(crate) fn new(
        client: Client,
        resource: Resource<'static>,
        node: &str,
        synced: Arc<AtomicBool>,
    ) -> Self {
        let stored = Arc::new(Store::new(|object: &Object<S, T>| Identity::from(&object.metadata)));
        let api = Api::all_with(client.clone(), &resource.api_resource());
        let config = Config::default().fields(&format!("metadata.name={node}"));
        let kept = stored.clone();
        let following = async move {
            let sink = kept.sifted(|object| readable(object, |json| serde_json::from_str(json)));
            let listed = async {
                kept.synced().await;
                synced.store(true, Ordering::Relaxed);
            };
            tokio::join!(follow_patiently(api, config, &sink), listed);
        };
        Self {
            client,
            resource,
            changes: stored.subscribe(),
            stored,
            following: Box::pin(following),
            writing: FuturesUnordered::new(),
            allowance: Allowance::new(WRITES.0, WRITES.1),
            unwritten: None,
            rest: None,
            failed: 0,
        }
    }

    /// The object, where there is one.
    pub(crate) fn object(&self) -> Option<Arc<Object<S, T>>> {
        self.stored.all().pop()
    }

    /// Waits until something happens. Nothing is lost where the caller stops waiting.
    pub(crate) async fn next(&mut self) -> Turn {
        let due = self.due();
        tokio::select! {
            () = &mut self.following => {}
            Some(_) = self.changes.recv() => {}
            Some(answer) = self.writing.next() => self.written(answer),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return Turn::Due,
        }
        Turn::ObjectVersion
    }

    /// Says that there is something to write, for which others are waited so long; or that there is nothing.
    pub(crate) fn owe(&mut self, gather: Option<Duration>) {
        let since = self.unwritten.map_or_else(Instant::now, |(since, _)| since);
        self.unwritten = gather.map(|gather| (since, gather));
    }

    /// Begins to write the status, unless there were too many writes.
    pub(crate) fn write(&mut self, patch_text: String) {
        let Some(object) = self.object() else { return };
        if !self.allowance.take() {
            self.rest = Some(Instant::now() + WRITES.1);
            return;
        }
        self.unwritten = None;
        let path = self.resource.all().name(&object.metadata.name).subresource("status");
        let client = self.client.clone();
        self.writing.push(Box::pin(async move { patch(&client, &path, PatchKind::Merge, patch_text).await }));
    }

    /// When to write.
    fn due(&self) -> Option<Instant> {
        let (since, gather) = self.unwritten.filter(|_| self.writing.is_empty())?;
        let gathered = since + gather;
        Some(self.rest.map_or(gathered, |rest| rest.max(gathered)))
    }

    fn written(&mut self, answer: Result<String, ApiError>) {
        match answer {
            Ok(json) => {
                (self.failed, self.rest) = (0, None);
                match serde_json::from_str(&json) {
                    Ok(object) => self.stored.patched(object),
                    Err(error) => {
                        warn!(kind = self.resource.kind, %error, "the answer to a write is not understood");
                    }
                }
            }
            Err(error) => {
                let pause = doubled(PAUSES, self.failed);
                self.failed = self.failed.saturating_add(1);
                self.rest = Some(Instant::now() + pause);
                // A conflict, or an API server that is away for a moment, is no trouble.
                if self.failed > TOLERATED {
                    warn!(kind = self.resource.kind, %error, ?pause, "a status is not written again and again");
                } else {
                    debug!(kind = self.resource.kind, %error, ?pause, "a status was not written, it will be tried again");
                }
            }
        }
    }
}
