//! Runs the probes of the NodePodProbe of the node (docs/behaviour/node-agent.md#probes): one loop follows it, keeps one
//! worker for each probe, and writes the status when there is something to report.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agent::probes::{Probes, Step, Work};
use agent::tasks::Worker;
use api::kinds::nodepodprobe::{API_VERSION, KIND, PLURAL, Spec, Status};
use cluster::event_sender::{EventSender, event_sender, write};
use cluster::events::{Recorder, about_in};
use cluster::resource::Resource;
use cri::Runtime;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::own::{Own, Turn};
pub use metrics::Metrics;
use worker::{ProbeReport, Tools, serve};

mod looks;
mod metrics;
#[cfg(test)]
mod tests;
mod worker;

const NODE_POD_PROBES: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
/// So many words of workers may wait.
const WAITING: usize = 256;

/// What the agent needs to run probes.
pub struct Probing {
    /// A client that names itself as the prober of Pods.
    pub client: Client,
    /// The node.
    pub node: String,
    /// The runtime that has the containers.
    pub runtime: Runtime,
    /// Where it counts.
    pub metrics: Metrics,
    /// Set when the NodePodProbe is known, or that there is none.
    pub synced: Arc<AtomicBool>,
}

struct Agent {
    tools: Tools,
    own: Own<Spec, Status>,
    probes: Probes,
    workers: HashMap<Worker, AbortHandle>,
    running: JoinSet<()>,
    event_sender: EventSender,
}

/// Runs the probes of a node until the task is dropped.
pub async fn run(probing: Probing) {
    let Probing { client, node, runtime, metrics, synced } = probing;
    let (results, mut reported) = mpsc::channel(WAITING);
    let (looks, questions) = looks::looks();
    let (event_sender, mut events) = event_sender("Probe");
    let mut running = JoinSet::new();
    running.spawn(looks::answer(runtime.clone(), questions));
    let own = Own::new(client.clone(), NODE_POD_PROBES, &node, synced);
    let recorder = Recorder::new(client, "kruise-daemon-podprobe", Some(node));
    running.spawn(async move { write(&recorder, &mut events).await });
    let mut agent = Agent {
        tools: Tools { runtime, looks, metrics, began: Instant::now(), results },
        own,
        probes: Probes::default(),
        workers: HashMap::new(),
        running,
        event_sender,
    };
    loop {
        tokio::select! {
            turn = agent.own.next() => match turn {
                Turn::ObjectVersion => agent.follow(),
                Turn::Due => agent.write(),
            },
            Some(reported) = reported.recv() => agent.hear(reported),
            Some(_) = agent.running.join_next() => {}
        }
    }
}

impl Agent {
    /// Starts and stops workers, and finds out whether there is something to write.
    fn follow(&mut self) {
        for step in self.probes.follow(self.own.object().as_deref()) {
            match step {
                Step::Stop(worker) => {
                    if let Some(running) = self.workers.remove(&worker) {
                        running.abort();
                    }
                }
                Step::Start(worker, work) => {
                    let first = work.first_run(self.tools.began.elapsed());
                    self.start(worker, work, first);
                }
                Step::Restart(worker, work) => {
                    let first = self.tools.began.elapsed();
                    self.start(worker, work, first);
                }
            }
        }
        self.tools.metrics.workers(self.workers.len());
        self.owe();
    }

    /// Starts a worker whose first run is when the agent has run so long.
    fn start(&mut self, worker: Worker, work: Arc<Work>, first: Duration) {
        let serving = serve(self.tools.clone(), worker, work, first);
        self.workers.insert(worker, self.running.spawn(serving));
    }

    fn hear(&mut self, reported: ProbeReport) {
        let key = reported.key();
        let ProbeReport { work, worker, finding } = reported;
        let node = self.own.object();
        let Some(heard) = self.probes.report(node.as_deref(), &key, worker, finding, Timestamp::now()) else {
            return;
        };
        if let Some(event) = heard.event {
            self.event_sender.record(about_in(&work.namespace, "v1", "Pod", &work.pod, &work.uid), event);
        }
        if heard.is_news {
            self.owe();
        }
    }

    fn owe(&mut self) {
        let change = self.own.object().and_then(|node| self.probes.change(&node));
        self.own.owe(change.map(|change| change.gather));
    }

    fn write(&mut self) {
        match self.own.object().and_then(|node| self.probes.change(&node)) {
            Some(change) => self.own.write(change.patch),
            None => self.own.owe(None),
        }
    }
}
