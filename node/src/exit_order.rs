//! Has the containers of Pods end in their order (docs/behaviour/node-agent.md#exit-order). What is done when is
//! decided by `agent::exit_order`; while no Pod ends nothing is asked.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agent::container::RuntimeContainer;
use agent::exit_order::{End, Mark, Settled, remaining};
use agent::meta::runtime;
use cluster::event_sender::{self, EventSender, event_sender};
use cluster::events::{Recorder, about_in};
use cluster::store::Change;
use cluster::watched::Key;
use cri::Runtime;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use kube::Client;
use pod::exit_priority::plan::hooked;
use pod::observed::ObservedPod;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, warn};

use crate::containers;
use crate::metrics::Metrics;
use crate::pods::{Pods, key};

#[cfg(test)]
mod tests;

/// Pause between two checks of the containers of Pods that end.
const LOOK: Duration = Duration::from_millis(200);
/// How long a hook has to accept a message.
const ANSWER: Duration = Duration::from_secs(3);
/// The most hooks that get a message at a time.
const CALLS: usize = 16;

/// What the agent needs to order the end of containers.
pub struct ExitOrder {
    /// A client that names itself as what orders ends.
    pub client: Client,
    /// The node.
    pub node: String,
    /// The runtimes of the node.
    pub runtimes: Arc<[Runtime]>,
    /// Where it counts.
    pub metrics: Metrics,
    /// The Pods of the node.
    pub pods: Arc<Pods>,
}

/// Orders ends. Never returns.
pub async fn run(order: ExitOrder) {
    let ExitOrder { client, node, runtimes, metrics, pods } = order;
    let recorder = Recorder::new(client, "kruise-daemon-exitorder", Some(node));
    let (event_sender, mut reported) = event_sender("OrderExit");
    let agent = Agent {
        runtimes,
        metrics,
        event_sender,
        began: Instant::now(),
        ends: HashMap::new(),
        holds: VecDeque::new(),
        releases: VecDeque::new(),
        calls: FuturesUnordered::new(),
    };
    tokio::join!(agent.serve(pods.subscribe()), event_sender::write(&recorder, &mut reported));
}

struct Agent {
    runtimes: Arc<[Runtime]>,
    metrics: Metrics,
    event_sender: EventSender,
    began: Instant,
    /// The Pods that end in an order.
    ends: HashMap<Key, Followed>,
    /// The next messages to hooks.
    holds: VecDeque<Call>,
    releases: VecDeque<Call>,
    calls: FuturesUnordered<BoxFuture<'static, Answer>>,
}

/// A Pod that ends.
struct Followed {
    pod: Arc<ObservedPod>,
    runtime: Runtime,
    end: End,
}

/// A message to one hook.
struct Call {
    key: Key,
    runtime: Runtime,
    mark: Mark,
    is_release: bool,
}

/// What came of a call.
struct Answer {
    key: Key,
    container: String,
    is_release: bool,
    succeeded: bool,
}

impl Agent {
    async fn serve(mut self, mut changes: UnboundedReceiver<Change<ObservedPod>>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                change = changes.recv() => match change {
                    Some(change) => self.take_in(&change),
                    None => return,
                },
                Some(answer) = self.calls.next() => self.answered(&answer),
                _ = looks.tick(), if !self.ends.is_empty() => self.check().await,
            }
            self.call();
        }
    }

    fn take_in(&mut self, change: &Change<ObservedPod>) {
        let Change { old, new } = change;
        let Some(last) = change.states().last() else { return };
        let key = &key(last);
        let Some(pod) = new else {
            self.ends.remove(key);
            return;
        };
        let old = old.as_deref().filter(|old| old.metadata.uid == pod.metadata.uid);
        let is_deleted = |pod: &ObservedPod| pod.metadata.deletion_timestamp.is_some();
        let is_new_end = old.is_none_or(|old| !is_deleted(old));
        let now = self.began.elapsed();
        if is_new_end {
            self.ends.remove(key);
        } else if let Some(followed) = self.ends.get_mut(key) {
            let grace = |pod: &ObservedPod| pod.metadata.deletion_grace_period_seconds;
            if old.is_some_and(|old| grace(old) != grace(pod)) {
                let left = remaining(pod, &[], true, Timestamp::now());
                followed.end.shorten(left, now);
            }
        }
        if !is_new_end || !is_deleted(pod) {
            return;
        }
        let plan = match hooked(pod) {
            Ok(plan) if plan.is_empty() => return,
            Ok(plan) => plan,
            Err(error) => {
                warn!(namespace = &*key.0, pod = &*key.1, %error, "the exit hooks of a Pod are not understood");
                return;
            }
        };
        // A Pod that is deleted early does not show its runtime yet: most nodes have one.
        let found = match (runtime(pod), &*self.runtimes) {
            (Some(name), runtimes) => containers::runtime(runtimes, name),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let Some(runtime) = found.cloned() else { return };
        let left = remaining(pod, &plan, old.is_some(), Timestamp::now());
        let end = End::new(plan, left, now);
        self.ends.insert(key.clone(), Followed { pod: pod.clone(), runtime, end });
    }

    /// Looks at the containers of all Pods that end, by one list of each runtime that has some.
    async fn check(&mut self) {
        let runtimes = self.runtimes.clone();
        for runtime in runtimes.iter() {
            if self.ends.values().all(|followed| followed.runtime.name() != runtime.name()) {
                continue;
            }
            let listed = match runtime.containers().await {
                Ok(listed) => listed,
                Err(error) => {
                    debug!(%error, "the containers of Pods that end can't be listed");
                    continue;
                }
            };
            let mut of_pods: HashMap<String, Vec<RuntimeContainer>> = HashMap::new();
            for container in listed.into_iter().map(containers::read) {
                of_pods.entry(container.pod()[2].to_owned()).or_default().push(container);
            }
            self.step(runtime.name(), &of_pods);
        }
    }

    /// Does what is due for the Pods of a runtime.
    fn step(&mut self, name: &str, of_pods: &HashMap<String, Vec<RuntimeContainer>>) {
        let now = self.began.elapsed();
        let (holds, releases, event_sender, metrics) =
            (&mut self.holds, &mut self.releases, &self.event_sender, &self.metrics);
        self.ends.retain(|key, followed| {
            let Followed { pod, runtime, end } = followed;
            if runtime.name() != name {
                return true;
            }
            let containers = of_pods.get(&*pod.metadata.uid).map(Vec::as_slice).unwrap_or_default();
            let call =
                |mark, is_release| Call { key: key.clone(), runtime: runtime.clone(), mark, is_release };
            let step = end.step(containers, now);
            holds.extend(step.holds.into_iter().map(|mark| call(mark, false)));
            releases.extend(step.releases.into_iter().map(|mark| call(mark, true)));
            for settled in step.settled {
                record(metrics, event_sender, pod, settled);
            }
            !step.is_over
        });
    }

    /// Tells hooks what is due, those that are held back first.
    fn call(&mut self) {
        while self.calls.len() < CALLS {
            let Some(call) = self.holds.pop_front().or_else(|| self.releases.pop_front()) else { return };
            let Call { key, runtime, mark: Mark { container, id, command }, is_release } = call;
            self.calls.push(Box::pin(async move {
                let answer = runtime.exec(&id, command, ANSWER).await;
                let succeeded = matches!(&answer, Ok(answer) if answer.exit_code == 0);
                if !succeeded {
                    warn!(id, ?answer, "an exit hook could not be told");
                }
                Answer { key, container, is_release, succeeded }
            }));
        }
    }

    fn answered(&mut self, answer: &Answer) {
        let now = self.began.elapsed();
        let Some(Followed { pod, end, .. }) = self.ends.get_mut(&answer.key) else { return };
        if !answer.is_release {
            return end.held(&answer.container, answer.succeeded, now);
        }
        if let Some(settled) = end.reported(&answer.container, answer.succeeded, now) {
            record(&self.metrics, &self.event_sender, pod, settled);
        }
    }
}

fn record(
    metrics: &Metrics,
    event_sender: &EventSender,
    pod: &ObservedPod,
    Settled { outcome, event }: Settled,
) {
    metrics.released(outcome);
    if let Some(event) = event {
        let metadata = &pod.metadata;
        event_sender.record(about_in(&metadata.namespace, "v1", "Pod", &metadata.name, &metadata.uid), event);
    }
}
