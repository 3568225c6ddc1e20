//! The object of a kind that is named like the node, and whose status the agent writes: as the watch shows it and own
//! writes leave it, whichever is newer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::kinds::Object;
use cluster::ApiError;
use cluster::events::Allowance;
use cluster::resource::Resource;
use cluster::watch_failures::WatchFailures;
use cluster::watched::WatchedObject;
use cluster::write::{PatchKind, patch};
use futures::StreamExt;
use futures::stream::{BoxStream, FuturesUnordered};
use kube::runtime::watcher::{self, Config, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};
use values::backoff::doubled;

use crate::news::{Source, State, is_news};

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
    kind: &'static str,
    synced: Arc<AtomicBool>,
    events: BoxStream<'static, watcher::Result<Event<WatchedObject>>>,
    object: Option<Object<S, T>>,
    /// The list that is being read has shown the object.
    listed: bool,
    failures: WatchFailures,
    /// The write that goes on, at most one.
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
    Seen,
    /// It is time to write.
    Due,
}

impl<S, T> Own<S, T>
where
    Object<S, T>: DeserializeOwned,
{
    /// The object of `node`. `synced` is set when it is known, or that there is none.
    pub(crate) fn new(
        client: Client,
        (resource, kind): (Resource<'static>, &'static str),
        node: &str,
        synced: Arc<AtomicBool>,
    ) -> Self {
        let api: Api<WatchedObject> = Api::all_with(client.clone(), &resource.api_resource());
        let config = Config::default().fields(&format!("metadata.name={node}"));
        Self {
            client,
            resource,
            kind,
            synced,
            events: watch(api, config).default_backoff().boxed(),
            object: None,
            listed: false,
            failures: WatchFailures::default(),
            writing: FuturesUnordered::new(),
            allowance: Allowance::new(WRITES.0, WRITES.1),
            unwritten: None,
            rest: None,
            failed: 0,
        }
    }

    /// The object, where there is one.
    pub(crate) fn object(&self) -> Option<&Object<S, T>> {
        self.object.as_ref()
    }

    /// Waits until something happens. Nothing is lost where the caller stops waiting.
    pub(crate) async fn next(&mut self) -> Turn {
        let due = self.due();
        tokio::select! {
            Some(event) = self.events.next() => self.see(event),
            Some(answer) = self.writing.next() => self.written(answer),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return Turn::Due,
        }
        Turn::Seen
    }

    /// Says that there is something to write, for which others are waited so long; or that there is nothing.
    pub(crate) fn owe(&mut self, gather: Option<Duration>) {
        let since = self.unwritten.map_or_else(Instant::now, |(since, _)| since);
        self.unwritten = gather.map(|gather| (since, gather));
    }

    /// Begins to write the status, unless there were too many writes.
    pub(crate) fn write(&mut self, patch_text: String) {
        let Some(object) = &self.object else { return };
        if !self.allowance.take() {
            self.rest = Some(Instant::now() + WRITES.1);
            return;
        }
        self.unwritten = None;
        let path = self.resource.all().name(&object.metadata.name).subresource("status");
        let client = self.client.clone();
        self.writing.push(Box::pin(async move { patch(&client, &path, PatchKind::Merge, patch_text).await }));
    }

    fn see(&mut self, event: watcher::Result<Event<WatchedObject>>) {
        if !matches!(event, Ok(Event::Init) | Err(_)) {
            self.failures.succeeded();
        }
        match event {
            Ok(Event::Init) => self.listed = false,
            Ok(Event::InitApply(object)) => {
                self.listed = true;
                self.learn(object.json(), Source::List);
            }
            Ok(Event::Apply(object)) => self.learn(object.json(), Source::Watch),
            Ok(Event::InitDone) => {
                if !self.listed {
                    self.object = None;
                }
                self.synced.store(true, Ordering::Relaxed);
            }
            Ok(Event::Delete(_)) => self.object = None,
            Err(error) => self.failures.failed(&self.kind, &error),
        }
    }

    /// Takes in a state of the object, where it is [news](is_news).
    fn learn(&mut self, json: &str, source: Source) {
        match serde_json::from_str::<Object<S, T>>(json) {
            Ok(object) => {
                if is_news(source, state(&object), self.object.as_ref().map(state)) {
                    self.object = Some(object);
                }
            }
            Err(error) => warn!(kind = self.kind, %error, "an object is not understood and passed over"),
        }
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
                self.learn(&json, Source::Write);
            }
            Err(error) => {
                let pause = doubled(PAUSES, self.failed);
                self.failed = self.failed.saturating_add(1);
                self.rest = Some(Instant::now() + pause);
                // A conflict, or an API server that is away for a moment, is no trouble.
                if self.failed > TOLERATED {
                    warn!(kind = self.kind, %error, ?pause, "a status is not written again and again");
                } else {
                    debug!(kind = self.kind, %error, ?pause, "a status was not written, it will be tried again");
                }
            }
        }
    }
}

fn state<S, T>(object: &Object<S, T>) -> State<'_> {
    (&object.metadata.uid, &object.metadata.resource_version)
}
