//! Serves the NodeImage of the node (docs/behaviour/node-agent.md#tasks): one loop follows it, keeps one worker for
//! each open task, and writes the status when there is something to tell.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::kinds::nodeimage::{API_VERSION, KIND, NodeImage};
use cluster::ApiError;
use cluster::events::{Allowance, Recorder, Severity, about, about_in};
use cluster::resource::NODE_IMAGES;
use cluster::watch_failures::WatchFailures;
use cluster::watched::WatchedObject;
use cluster::write::{PatchKind, patch};
use cri::Runtime;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::watcher::{self, Config, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use planner::node::tasks::{Step, Tasks, Worker, event};
use planner::text::backoff::doubled;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::metrics::Metrics;
use secrets::Secrets;
use worker::{Told, Tools, Work, serve};

mod secrets;
mod server;
#[cfg(test)]
mod tests;
mod worker;

/// So many writes of the status at once, and one more after each such time.
const WRITES: (u32, Duration) = (5, Duration::from_secs(2));
/// The first pause and the longest after writes that failed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(50));
/// So many writes in a row may fail before it is trouble.
const TOLERATED: u32 = 3;
/// So many words of workers, and Events, may wait.
const WAITING: usize = 256;

/// What the agent needs to serve a NodeImage.
pub struct Images {
    /// A client that names itself as the puller of images.
    pub client: Client,
    /// The file of the token with which the agent asks for pull Secrets.
    pub token: PathBuf,
    /// The node.
    pub node: String,
    /// The runtime that has the images.
    pub runtime: Runtime,
    /// The most pulls at a time; as many as there are tasks where it is absent.
    pub most: Option<NonZeroUsize>,
    /// Where it counts.
    pub metrics: Metrics,
    /// Set when the NodeImage is known, or that there is none.
    pub synced: Arc<AtomicBool>,
}

/// An Event that is to be written.
type Notice = (ObjectReference, planner::workload::event::Event);

type Writes = FuturesUnordered<Pin<Box<dyn Future<Output = Result<String, ApiError>> + Send>>>;

struct Agent {
    client: Client,
    tools: Tools,
    synced: Arc<AtomicBool>,
    node: Option<NodeImage>,
    /// The list that is being read has shown the NodeImage.
    listed: bool,
    failures: WatchFailures,
    tasks: Tasks,
    workers: HashMap<Worker, AbortHandle>,
    running: JoinSet<()>,
    tell: mpsc::Sender<Told>,
    notices: mpsc::Sender<Notice>,
    /// The write that goes on, at most one.
    writing: Writes,
    allowance: Allowance,
    /// Since when there is something to write, and how long others are waited for.
    unwritten: Option<(Instant, Duration)>,
    /// No write before this time.
    rest: Option<Instant>,
    failed: u32,
}

/// Serves the NodeImage of a node until the task is dropped.
pub async fn run(images: Images) {
    let Images { client, token, node, runtime, most, metrics, synced } = images;
    let api: Api<WatchedObject> = Api::all_with(client.clone(), &NODE_IMAGES.api_resource());
    let config = Config::default().fields(&format!("metadata.name={node}"));
    let mut events = watch(api, config).default_backoff().boxed();
    let (tell, mut told) = mpsc::channel(WAITING);
    let (notices, tellable) = mpsc::channel(WAITING);
    let recorder = Recorder::new(client.clone(), "kruise-daemon-imagepuller", Some(node));
    let turns = most.map(|most| Arc::new(Semaphore::new(most.get())));
    let mut agent = Agent {
        tools: Tools {
            runtime,
            secrets: Secrets::new(client.clone(), token),
            metrics,
            turns,
            looks: Arc::new(Semaphore::new(1)),
        },
        client,
        synced,
        node: None,
        listed: false,
        failures: WatchFailures::default(),
        tasks: Tasks::default(),
        workers: HashMap::new(),
        running: JoinSet::new(),
        tell,
        notices,
        writing: FuturesUnordered::new(),
        allowance: Allowance::new(WRITES.0, WRITES.1),
        unwritten: None,
        rest: None,
        failed: 0,
    };
    agent.running.spawn(record(recorder, tellable));
    loop {
        let due = agent.due();
        tokio::select! {
            Some(event) = events.next() => agent.see(event),
            Some(told) = told.recv() => agent.hear(told),
            Some(answer) = agent.writing.next() => agent.written(answer),
            Some(_) = agent.running.join_next() => {}
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => agent.write(),
        }
        agent.follow();
    }
}

/// Writes Events, one after another.
async fn record(recorder: Recorder, mut notices: mpsc::Receiver<Notice>) {
    while let Some((object, event)) = notices.recv().await {
        let severity = if event.warning { Severity::Warning } else { Severity::Normal };
        recorder.record(&object, severity, "PullImage", event.reason, event.message).await;
    }
}

impl Agent {
    fn see(&mut self, event: watcher::Result<Event<WatchedObject>>) {
        if !matches!(event, Ok(Event::Init) | Err(_)) {
            self.failures.succeeded();
        }
        match event {
            Ok(Event::Init) => self.listed = false,
            Ok(Event::InitApply(object)) => {
                self.listed = true;
                // A list shows what there is, also where a restored API server has gone back in time.
                self.learn(object.json(), true);
            }
            Ok(Event::Apply(object)) => self.learn(object.json(), false),
            Ok(Event::InitDone) => {
                if !self.listed {
                    self.node = None;
                }
                self.synced.store(true, Ordering::Relaxed);
            }
            Ok(Event::Delete(_)) => self.node = None,
            Err(error) => self.failures.failed(&"NodeImage", &error),
        }
    }

    /// Takes a state of the NodeImage in, unless it is not `certain` and a later one is known from the answer to a
    /// write.
    fn learn(&mut self, json: &str, certain: bool) {
        match serde_json::from_str::<NodeImage>(json) {
            Ok(node) if !certain && self.node.as_ref().is_some_and(|known| is_older(&node, known)) => {}
            Ok(node) => self.node = Some(node),
            Err(error) => warn!(%error, "the NodeImage is not understood and passed over"),
        }
    }

    fn hear(&mut self, told: Told) {
        let Told { key, worker, report, elapsed } = told;
        if !self.tasks.report(&key, worker, &report, Timestamp::now()) {
            return;
        }
        let Some(event) = event(&key, &report, elapsed) else { return };
        self.workers.remove(&worker);
        let Some(node) = &self.node else { return };
        let own = about(API_VERSION, KIND, &node.metadata.name, &node.metadata.uid);
        let owners = node.spec.images.get(&key.image).into_iter().flat_map(|image| &image.tags);
        let owners = owners.filter(|tag| event.warning && tag.tag == key.tag);
        let owners = owners.flat_map(|tag| &tag.owner_references).map(|owner| {
            about_in(&owner.namespace, &owner.api_version, &owner.kind, &owner.name, &owner.uid)
        });
        for object in std::iter::once(own).chain(owners) {
            if self.notices.try_send((object, event.clone())).is_err() {
                debug!(reason = event.reason, "there are too many Events, one is not written");
            }
        }
    }

    /// Starts and stops workers, and finds out whether there is something to write.
    fn follow(&mut self) {
        let node = self.node.as_ref().filter(|node| node.metadata.deletion_timestamp.is_none());
        for step in self.tasks.follow(node) {
            match step {
                Step::Stop(worker) => {
                    if let Some(running) = self.workers.remove(&worker) {
                        running.abort();
                    }
                }
                Step::Start(worker, key) => {
                    let image = node.and_then(|node| node.spec.images.get(&key.image)).cloned();
                    let Some(image) = image else { continue };
                    let Some(task) = image.tags.iter().find(|tag| tag.tag == key.tag).cloned() else {
                        continue;
                    };
                    let work = Work { worker, tell: self.tell.clone(), key, image, task };
                    let serving = serve(self.tools.clone(), work);
                    self.workers.insert(worker, self.running.spawn(serving));
                }
            }
        }
        let change = node.and_then(|node| self.tasks.change(node));
        let since = self.unwritten.map_or_else(Instant::now, |(since, _)| since);
        self.unwritten = change.map(|change| (since, change.gather));
    }

    /// When to write.
    fn due(&self) -> Option<Instant> {
        let (since, gather) = self.unwritten.filter(|_| self.writing.is_empty())?;
        let gathered = since + gather;
        Some(self.rest.map_or(gathered, |rest| rest.max(gathered)))
    }

    fn write(&mut self) {
        let Some(node) = &self.node else { return };
        let Some(change) = self.tasks.change(node) else { return };
        if !self.allowance.take() {
            self.rest = Some(Instant::now() + WRITES.1);
            return;
        }
        self.unwritten = None;
        let path = NODE_IMAGES.all().name(&node.metadata.name).subresource("status");
        let client = self.client.clone();
        self.writing
            .push(Box::pin(async move { patch(&client, &path, PatchKind::Merge, change.patch).await }));
    }

    fn written(&mut self, answer: Result<String, ApiError>) {
        match answer {
            Ok(json) => {
                (self.failed, self.rest) = (0, None);
                self.learn(&json, false);
            }
            Err(error) => {
                let pause = doubled(PAUSES, self.failed);
                self.failed = self.failed.saturating_add(1);
                self.rest = Some(Instant::now() + pause);
                // A conflict, or an API server that is away for a moment, is no trouble.
                if self.failed > TOLERATED {
                    warn!(%error, ?pause, "the status of the NodeImage is not written again and again");
                } else {
                    debug!(%error, ?pause, "the status of the NodeImage was not written, it will be tried again");
                }
            }
        }
    }
}

/// Whether a state is an older one of the same object.
fn is_older(node: &NodeImage, known: &NodeImage) -> bool {
    let version = |node: &NodeImage| node.metadata.resource_version.parse::<u64>().ok();
    node.metadata.uid == known.metadata.uid
        && matches!((version(node), version(known)), (Some(one), Some(other)) if one < other)
}
