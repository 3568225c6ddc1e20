//! Serves the NodeImage of the node (docs/behaviour/node-agent.md#tasks): one loop follows it, keeps one worker for
//! each open task, and writes the status when there is something to report.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent::tasks::{Key, Report, Step, Tasks, Worker, event};
use api::kinds::nodeimage::{API_VERSION, Image, KIND, Spec, Status};
use cluster::event_sender::{EventSender, event_sender, write};
use cluster::events::{Recorder, about, about_in};
use cluster::resource::NODE_IMAGES;
use cri::Runtime;
use jiff::Timestamp;
use kinds::workload::image_task::is_doubtful;
use kube::Client;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::metrics::Metrics;
use crate::own::{Own, Turn};
use providers::Providers;
use records::Records;
use secrets::Secrets;
use worker::{Outcome, Tools, Work, serve};

pub mod providers;
pub mod records;
mod secrets;
mod server;
#[cfg(test)]
mod tests;
mod worker;

/// So many words of workers may wait.
const WAITING: usize = 256;

/// What the agent needs to serve a NodeImage.
pub struct Images {
    /// A client that names itself as the puller of images.
    pub client: Client,
    /// The file of the token with which the agent asks for pull Secrets.
    pub token: PathBuf,
    /// The programs that are asked for credentials where pull Secrets are not enough.
    pub providers: Providers,
    /// The images that not everybody has.
    pub records: Records,
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

/// A worker, and the channel for its requests.
struct Running {
    handle: AbortHandle,
    key: Key,
    image: watch::Sender<Image>,
}

struct Agent {
    tools: Tools,
    own: Own<Spec, Status>,
    tasks: Tasks,
    workers: HashMap<Worker, Running>,
    running: JoinSet<()>,
    outcomes: mpsc::Sender<Outcome>,
    event_sender: EventSender,
}

/// Serves the NodeImage of a node until the task is dropped.
pub async fn run(images: Images) {
    let Images { client, token, providers, records, node, runtime, most, metrics, synced } = images;
    let own = Own::new(client.clone(), NODE_IMAGES, &node, synced);
    let (outcomes, mut reported) = mpsc::channel(WAITING);
    let (event_sender, mut events) = event_sender("PullImage");
    let secrets = Secrets::new(client.clone(), token);
    let recorder = Recorder::new(client, "kruise-daemon-imagepuller", Some(node));
    let turns = most.map(|most| Arc::new(Semaphore::new(most.get())));
    let mut agent = Agent {
        tools: Tools {
            runtime,
            secrets,
            providers,
            metrics,
            turns,
            looks: Arc::new(Semaphore::new(1)),
            records: Arc::new(records),
        },
        own,
        tasks: Tasks::default(),
        workers: HashMap::new(),
        running: JoinSet::new(),
        outcomes,
        event_sender,
    };
    agent.running.spawn(async move { write(&recorder, &mut events).await });
    loop {
        tokio::select! {
            turn = agent.own.next() => if turn == Turn::Due { agent.write() },
            Some(reported) = reported.recv() => agent.hear(reported),
            Some(_) = agent.running.join_next() => {}
        }
        agent.follow();
    }
}

impl Agent {
    fn hear(&mut self, reported: Outcome) {
        let Outcome { key, worker, report, elapsed } = reported;
        if !self.tasks.report(&key, worker, &report, Timestamp::now()) {
            return;
        }
        let Some(event) = event(&key, &report, elapsed) else { return };
        self.workers.remove(&worker);
        let Some(node) = self.own.object() else { return };
        let own = about(API_VERSION, KIND, &node.metadata.name, &node.metadata.uid);
        let owners = node.spec.images.get(&key.image).into_iter().flat_map(|image| &image.tags);
        let owners = owners.filter(|tag| tag.tag == key.tag).flat_map(|tag| &tag.owner_references);
        let failed = |owner: &&_| matches!(&report, Report::Failed(refusal) if refusal.concerns(owner));
        let owners = owners.filter(failed).map(|owner| {
            about_in(&owner.namespace, &owner.api_version, &owner.kind, &owner.name, &owner.uid)
        });
        for object in std::iter::once(own).chain(owners) {
            self.event_sender.record(object, event.clone());
        }
    }

    /// Starts and stops workers, and finds out whether there is something to write.
    fn follow(&mut self) {
        let node = self.own.object();
        let node = node.as_deref().filter(|node| node.metadata.deletion_timestamp.is_none());
        for step in self.tasks.follow(node) {
            match step {
                Step::Stop(worker) => {
                    if let Some(running) = self.workers.remove(&worker) {
                        running.handle.abort();
                    }
                }
                Step::Start(worker, key) => {
                    let image = node.and_then(|node| node.spec.images.get(&key.image)).cloned();
                    let Some(image) = image else { continue };
                    let Some(task) = image.tags.iter().find(|tag| tag.tag == key.tag) else { continue };
                    let terms = task.pull_policy.clone();
                    let is_doubtful = node.is_some_and(|node| is_doubtful(node, &key.image, &key.tag));
                    let (sender, image) = watch::channel(image);
                    let work = Work {
                        worker,
                        outcomes: self.outcomes.clone(),
                        key: key.clone(),
                        image,
                        terms,
                        is_doubtful,
                    };
                    let handle = self.running.spawn(serve(self.tools.clone(), work));
                    self.workers.insert(worker, Running { handle, key, image: sender });
                }
            }
        }
        for running in self.workers.values() {
            if let Some(image) = node.and_then(|node| node.spec.images.get(&running.key.image)) {
                running.image.send_if_modified(|known| {
                    let differs = known != image;
                    known.clone_from(image);
                    differs
                });
            }
        }
        let change = node.and_then(|node| self.tasks.change(node));
        self.own.owe(change.map(|change| change.gather));
    }

    fn write(&mut self) {
        if let Some(change) = self.own.object().and_then(|node| self.tasks.change(&node)) {
            self.own.write(change.patch);
        }
    }
}
