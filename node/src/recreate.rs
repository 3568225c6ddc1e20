//! Carries out ContainerRecreateRequests for Pods of the node (docs/behaviour/restarts.md#the-node-agent). What to do
//! next is decided by `agent::recreate`.

use std::collections::HashSet;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::container::{Condition, RuntimeContainer, newest};
use agent::recreate::{Start, Step, Stop, go_on, start, turn, wait};
use api::kinds::containerrecreaterequest::{API_VERSION, ContainerRecreateRequest, KIND, PLURAL, Phase};
use api::labels::{CRR_ACTIVE, CRR_NODE_NAME, CRR_POD_UID};
use cluster::error::ErrorReason;
use cluster::event_sender::event_sender;
use cluster::events::{Recorder, about_in};
use cluster::follow::{follow_patiently, readable};
use cluster::queue::{self, Next, QueueMetrics, QueueSettings, Reconciler};
use cluster::resource::Resource;
use cluster::store::{Identity, Store};
use cluster::triggers::forward;
use cluster::watched::Key;
use cluster::write::{PatchKind, patch};
use cluster::{ApiError, Retry};
use cri::Runtime;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::sleep;
use tracing::warn;
use values::backoff::doubled;

use crate::containers;
use crate::error::AgentError;
use crate::metrics::Metrics;
use crate::stop::{Order, Stops};

#[cfg(test)]
mod tests;

const REQUESTS: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
/// So many Pods are examined at a time. A container that stops keeps nobody waiting but its own Pod.
const SETTINGS: QueueSettings = QueueSettings { name: "crr", workers: 32 };
/// Pause before a request is reconciled again of which something had changed when it was to be written to.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Writes in one pass. No request needs more at a time.
const STEPS: usize = 8;
/// The first pause and the longest after writes of what a stop came to.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(50));

/// The requests that are not over for Pods of the node, found by namespace and name of their Pod.
pub type Requests = Store<ContainerRecreateRequest, Key>;

/// No request is known yet.
pub fn requests() -> Requests {
    Store::grouped(|request| Identity::from(&request.metadata), |request| vec![pod_of(request)])
}

fn pod_of(request: &ContainerRecreateRequest) -> Key {
    (request.metadata.namespace.clone(), request.spec.pod_name.clone())
}

/// What the agent needs to carry out requests.
pub struct Recreate {
    /// A client that names itself as what recreates containers.
    pub client: Client,
    /// The node.
    pub node: String,
    /// The runtimes of the node.
    pub runtimes: Arc<[Runtime]>,
    /// Where it counts.
    pub metrics: Metrics,
    /// Where its queue counts.
    pub queues: QueueMetrics,
    /// Where the requests are kept.
    pub requests: Arc<Requests>,
}

/// The requests for a Pod are one piece of work.
#[derive(Clone)]
struct Agent {
    client: Client,
    runtimes: Arc<[Runtime]>,
    requests: Arc<Requests>,
    stops: Stops,
    /// The Pods of which a container is being stopped.
    stopping: Arc<Mutex<HashSet<Key>>>,
    keys: UnboundedSender<Key>,
}

/// A Pod of which a container is being stopped, until this is dropped: then it is examined again.
struct Stopping {
    agent: Agent,
    key: Key,
}

/// Carries out requests. Never returns. A stop that has begun continues when this is dropped.
pub async fn run(recreate: Recreate) {
    let Recreate { client, node, runtimes, metrics, queues, requests } = recreate;
    let selector = format!("{CRR_NODE_NAME}={node},{CRR_ACTIVE}=true");
    let recorder = Recorder::new(client.clone(), "kruise-daemon-crr", Some(node));
    let (event_sender, reported) = event_sender("StopContainer");
    let (keys, due) = unbounded_channel();
    let stops = Stops { client: client.clone(), event_sender: event_sender.clone(), metrics, by: "crr" };
    let agent = Arc::new(Agent {
        client: client.clone(),
        runtimes,
        requests: requests.clone(),
        stops,
        stopping: Arc::default(),
        keys: keys.clone(),
    });
    let changes = requests.subscribe();
    let stored = requests.sifted(|object| readable(object, |json| serde_json::from_str(json)));
    let (api, config) =
        (Api::all_with(client, &REQUESTS.api_resource()), Config::default().labels(&selector));
    tokio::join!(
        follow_patiently(api, config, &stored),
        forward(changes, keys, |change| change.states().last().map(|it| (pod_of(it), Duration::ZERO))),
        queue::serve(SETTINGS, (recorder, &queues), ready(()), due, agent, (event_sender, reported)),
    );
}

impl Reconciler for Agent {
    /// Namespace and name of the Pod.
    type Key = Key;
    type Error = AgentError;

    async fn reconcile(&self, key: &Key) -> Result<Next, AgentError> {
        for _ in 0..STEPS {
            if let Some(next) = self.take_step(key).await? {
                return Ok(next);
            }
        }
        Ok(Next::After(RETRY_DELAY))
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let request = self.requests.group(key).into_iter().next()?;
        let metadata = &request.metadata;
        Some(about_in(&metadata.namespace, API_VERSION, KIND, &metadata.name, &metadata.uid))
    }
}

impl Agent {
    /// Takes the next step for a Pod; `None` where another one follows.
    async fn take_step(&self, key: &Key) -> Result<Option<Next>, AgentError> {
        let requests = self.requests.group(key);
        let turn = turn(requests.iter().map(|request| &**request));
        let is_busy = self.stopping().contains(key);
        let current = turn.current.filter(|_| !is_busy);
        let held = turn.current.filter(|held| is_busy && held.status.phase == Phase::Unset);
        for later in turn.waiting.into_iter().chain(held) {
            if let Some(next) = self.write(later, wait(later)).await? {
                return Ok(Some(next));
            }
        }
        let Some(current) = current else { return Ok(Some(Next::Done)) };
        let served: Vec<&str> = self.runtimes.iter().map(Runtime::name).collect();
        let step = match start(current, &served, Timestamp::now()) {
            Start::Step(step) => step,
            Start::Look(name) => {
                let Some(runtime) = containers::runtime(&self.runtimes, name) else {
                    return Ok(Some(Next::Done));
                };
                let observed = observe(runtime, current).await?;
                match go_on(current, &observed, Timestamp::now()) {
                    Step::Stop(stop) => {
                        self.begin(key, current.clone(), runtime.clone(), *stop);
                        return Ok(Some(Next::Done));
                    }
                    step => step,
                }
            }
        };
        match step {
            Step::Status(patch) => self.write(current, patch).await,
            Step::Wait(rest) => Ok(Some(rest.map_or(Next::Done, Next::After))),
            Step::Stop(_) => Ok(Some(Next::Done)),
        }
    }

    /// Stops a container beside the other work: it can take as long as its Pod likes.
    fn begin(&self, key: &Key, request: ContainerRecreateRequest, runtime: Runtime, stop: Stop) {
        self.stopping().insert(key.clone());
        let stopping = Stopping { agent: self.clone(), key: key.clone() };
        tokio::spawn(async move {
            let agent = &stopping.agent;
            let metadata = &request.metadata;
            let uid = metadata.labels.get(CRR_POD_UID).map_or("", String::as_str);
            let order = Order {
                runtime: &runtime,
                id: &stop.id,
                name: &stop.name,
                pod: [&stopping.key.0, &stopping.key.1, uid],
                grace: stop.grace,
                hook: stop.hook.as_ref(),
                message: format!(
                    "Stopping container {} by ContainerRecreateRequest {}",
                    stop.name, metadata.name
                ),
            };
            let stopped = agent.stops.stop(&order).await.map_err(|error| error.to_string());
            let patch = stop.ended(&request, stopped.as_ref().copied().map_err(String::as_str));
            agent.record(&request, patch).await;
        });
    }

    /// Writes what a stop came to, however long the API server is away.
    async fn record(&self, request: &ContainerRecreateRequest, body: String) {
        for failed in 0.. {
            let Err(error) = self.patch(request, body.clone()).await else { return };
            // A request that is gone needs to know nothing.
            if error.retry() != Retry::WhenHealthy {
                return;
            }
            let (name, pause) = (&request.metadata.name, doubled(PAUSES, failed));
            warn!(name, %error, ?pause, "the status of a ContainerRecreateRequest is not written");
            sleep(pause).await;
        }
    }

    /// Writes a status; gives when to reconcile again where it could not be.
    async fn write(
        &self,
        request: &ContainerRecreateRequest,
        body: String,
    ) -> Result<Option<Next>, AgentError> {
        match self.patch(request, body).await {
            Ok(()) => Ok(None),
            // The watch says that it is gone.
            Err(error) if error.reason() == ErrorReason::NotFound => Ok(Some(Next::Done)),
            Err(error) if error.retry() == Retry::Now => Ok(Some(Next::After(RETRY_DELAY))),
            Err(error) => Err(error.into()),
        }
    }

    async fn patch(&self, request: &ContainerRecreateRequest, body: String) -> Result<(), ApiError> {
        let metadata = &request.metadata;
        let path = REQUESTS.namespaced(&metadata.namespace).name(&metadata.name).subresource("status");
        let after = patch(&self.client, &path, PatchKind::Merge, body).await?;
        // What can't be read comes by the watch, which warns of it.
        if let Ok(after) = serde_json::from_str(&after) {
            self.requests.patched(after);
        }
        Ok(())
    }

    // Held for single operations only, never over an await.
    fn stopping(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.stopping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        self.agent.stopping().remove(&self.key);
        // Nobody listens when the agent ends.
        drop(self.agent.keys.send(self.key.clone()));
    }
}

/// The containers of a request's Pod, and of those that it names when they were started.
async fn observe(
    runtime: &Runtime,
    request: &ContainerRecreateRequest,
) -> Result<Vec<RuntimeContainer>, AgentError> {
    let uid = request.metadata.labels.get(CRR_POD_UID).map_or("", String::as_str);
    let mut observed = containers::of_pod(runtime, uid).await?;
    for wanted in &request.spec.containers {
        let running = newest(&observed, &wanted.name).filter(|newest| newest.condition == Condition::Running);
        let Some(id) = running.map(|running| running.id.clone()) else { continue };
        for container in observed.iter_mut().filter(|container| container.id == id) {
            containers::learn_start(runtime, container).await?;
        }
    }
    Ok(observed)
}
