//! Tells the containers of Pods what only the runtime knows, and restarts those that show old labels or annotations
//! (docs/behaviour/in-place-update.md#how-the-node-agent-reports). `agent::meta` decides what is reported.

use std::future::ready;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use agent::container::Condition;
use agent::meta::{Report, Unknown, concerns, is_due, runtime};
use cluster::Retry;
use cluster::error::ErrorReason;
use cluster::event_sender::{self, event_sender};
use cluster::events::{Recorder, about_in};
use cluster::queue::{self, Next, QueueMetrics, QueueSettings, Reconciler};
use cluster::resource::PODS;
use cluster::triggers::forward;
use cluster::watched::Key;
use cluster::write::{PatchKind, patch};
use cri::Runtime;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::containers;
use crate::error::AgentError;
use crate::metrics::Metrics;
use crate::pods::{Pods, key};
use crate::stop::{Order, Stops};

#[cfg(test)]
mod tests;

const REPORTS: QueueSettings = QueueSettings { name: "runtime_container_meta", workers: 5 };
const RESTARTS: QueueSettings = QueueSettings { name: "runtime_container_meta_restarter", workers: 10 };
/// How long changes of a Pod are waited for, which come several at a time.
const GATHER: Duration = Duration::from_secs(1);
/// Pause before a Pod is reconciled again that had changed when it was to be written to.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// How long a container has to print its variables.
const QUESTION: Duration = Duration::from_secs(3);
/// How long before a restart: the update of the Pod continues meanwhile.
const BEFORE_RESTART: Duration = Duration::from_secs(3);
/// How long a container has to stop of which nothing is known.
const GRACE: Duration = Duration::from_secs(2);

/// What the agent needs to report containers.
pub struct Meta {
    /// A client that names itself as what reports containers.
    pub client: Client,
    /// The node.
    pub node: String,
    /// The runtimes of the node.
    pub runtimes: Arc<[Runtime]>,
    /// Where it counts.
    pub metrics: Metrics,
    /// Where its queues count.
    pub queues: QueueMetrics,
    /// The Pods of the node.
    pub pods: Arc<Pods>,
    /// Whether variables are reported that show labels and annotations.
    pub with_environment: bool,
}

/// Reports Pods.
struct Reporter {
    client: Client,
    runtimes: Arc<[Runtime]>,
    pods: Arc<Pods>,
    with_environment: bool,
    restarts: UnboundedSender<Restart>,
}

/// Restarts containers.
struct Restarter {
    runtimes: Arc<[Runtime]>,
    stops: Stops,
}

/// A container that is to be restarted: its runtime, its ID.
type Restart = (String, String);

/// Reports containers. Never returns.
pub async fn run(meta: Meta) {
    let Meta { client, node, runtimes, metrics, queues, pods, with_environment } = meta;
    let recorder = Recorder::new(client.clone(), "kruise-daemon-containermeta", Some(node));
    let changes = pods.subscribe();
    let (restarts, outdated) = unbounded_channel();
    let reporter =
        Reporter { client: client.clone(), runtimes: runtimes.clone(), pods, with_environment, restarts };
    let (keys, due) = unbounded_channel();
    let (restart_keys, restarts_due) = unbounded_channel();
    let (event_sender, reported) = event_sender("StopContainer");
    let restarter = Restarter {
        runtimes,
        stops: Stops { client, event_sender: event_sender.clone(), metrics, by: "meta" },
    };
    tokio::join!(
        forward(changes, keys, |change| {
            let new = change.new.as_deref();
            let new = new.filter(|new| is_due(change.old.as_deref(), new, with_environment));
            new.map(|new| (key(new), GATHER))
        }),
        forward(outdated, restart_keys, |restart: &Restart| [(restart.clone(), BEFORE_RESTART)]),
        queue::serve(
            REPORTS,
            (recorder.clone(), &queues),
            ready(()),
            due,
            Arc::new(reporter),
            event_sender::event_sender("Report")
        ),
        queue::serve(
            RESTARTS,
            (recorder, &queues),
            ready(()),
            restarts_due,
            Arc::new(restarter),
            (event_sender, reported)
        ),
    );
}

impl Reconciler for Reporter {
    type Key = Key;
    type Error = AgentError;

    async fn reconcile(&self, key: &Key) -> Result<Next, AgentError> {
        let Some(pod) = self.pods.get(key) else { return Ok(Next::Done) };
        if pod.metadata.deletion_timestamp.is_some() || !concerns(&pod) {
            return Ok(Next::Done);
        }
        // A Pod without a container has nothing to report, and one of another runtime is none of ours.
        let name = runtime(&pod);
        let runtime = name.and_then(|name| containers::runtime(&self.runtimes, name));
        let (Some(name), Some(runtime)) = (name, runtime) else { return Ok(Next::Done) };
        let observed = containers::of_pod(runtime, &pod.metadata.uid).await?;
        let mut report = Report::new(&pod, name, &observed, self.with_environment);
        let mut silent = None;
        for unknown in take(&mut report.unknown) {
            match variables(runtime, &unknown).await {
                Some(printed) => report.learn(&unknown, &printed),
                None => silent = Some(unknown.id),
            }
        }
        for id in report.outdated() {
            // The receiver lives as long as this does.
            drop(self.restarts.send((name.to_owned(), id.to_owned())));
        }
        if let Some(write) = report.write()
            && let Some(next) = self.write(key, &pod, &write).await?
        {
            return Ok(next);
        }
        silent.map_or(Ok(Next::Done), |id| Err(AgentError::Silent(id)))
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let pod = self.pods.get(key)?;
        Some(about_in(&key.0, "v1", "Pod", &key.1, &pod.metadata.uid))
    }
}

impl Reporter {
    /// Writes to a Pod; gives when to reconcile again where it could not be.
    async fn write(
        &self,
        key: &Key,
        pod: &ObservedPod,
        write: &PodWrite,
    ) -> Result<Option<Next>, AgentError> {
        let path = PODS.namespaced(&key.0).name(&key.1).subresource("status");
        let body = write.to_json(pod);
        match patch(&self.client, &path, PatchKind::StrategicMerge, body).await {
            Ok(after) => {
                self.pods.patched(ObservedPod::read(&after)?);
                Ok(None)
            }
            // The watch says that it is gone.
            Err(error) if error.reason() == ErrorReason::NotFound => Ok(Some(Next::Done)),
            Err(error) if error.retry() == Retry::Now => Ok(Some(Next::After(RETRY_DELAY))),
            Err(error) => Err(error.into()),
        }
    }
}

/// What `env` prints in a container.
async fn variables(runtime: &Runtime, container: &Unknown) -> Option<String> {
    let answer = runtime.exec(&container.id, vec!["env".to_owned()], QUESTION).await.ok()?;
    (answer.exit_code == 0).then(|| String::from_utf8_lossy(&answer.stdout).into_owned())
}

impl Reconciler for Restarter {
    type Key = Restart;
    type Error = AgentError;

    async fn reconcile(&self, (runtime, id): &Restart) -> Result<Next, AgentError> {
        let Some(runtime) = containers::runtime(&self.runtimes, runtime) else { return Ok(Next::Done) };
        let container = runtime.container(id).await?.map(containers::read);
        let Some(container) = container.filter(|container| container.condition == Condition::Running) else {
            return Ok(Next::Done);
        };
        let (hook, name) = (container.hook(), container.name());
        let order = Order {
            runtime,
            id,
            name,
            pod: container.pod(),
            grace: container.grace().unwrap_or(GRACE),
            hook: hook.as_ref(),
            message: format!("Stopping containerID {name} by container meta restarter"),
        };
        self.stops.stop(&order).await?;
        Ok(Next::Done)
    }

    fn object(&self, _restart: &Restart) -> Option<ObjectReference> {
        None
    }
}
