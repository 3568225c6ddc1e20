//! Controller `workloadspread-controller`: counts the Pods of WorkloadSpreads, adopts those that were there before,
//! sets deletion costs and replaces Pods that find no node (docs/behaviour/workloadspread.md#the-controller). What to
//! do is decided by `kinds::workloadspread`. Runs with the gate `WorkloadSpread`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::features::Feature;
use api::kinds::workloadspread::KIND;
use cluster::discovery::Discovery;
use cluster::resource::{PODS, SPREADS};
use cluster::watched::Key;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::workload::resolved::{Reference, ResolvedWorkload};
use kinds::workloadspread::custom::{self, CustomWorkloads};
use kinds::workloadspread::plan::{Plan, PodPatch, Snapshot, Stuck, plan, unmarked};
use kinds::workloadspread::spread::Spread;
use kinds::workloadspread::version::VersionedKinds;
use kinds::workloadspread::{Candidate, trigger, version};
use kube::Client;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use tokio::time::Instant;
use values::event::Event;

use crate::metrics::objects;
use crate::workload::builder::{Builder, Next, QueueSettings, Reconciler};
use crate::workload::store::follow::Readable;
use crate::workload::store::{Change, Identity, Kept, Store};
use crate::workload::stores::Stores;
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;

const NAME: &str = "workloadspread-controller";
/// Pause before a WorkloadSpread is reconciled again that had changed when its status was to be written, or of whose
/// Pods some are still to be read.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How often targets are read whose changes are not watched, and Pods on Nodes that are not known yet.
const UNWATCHED: Duration = Duration::from_secs(10);
/// Pods that one reconcile reads, to be adopted.
const CANDIDATES: usize = 200;
/// How long it is believed that no subset suits a Pod.
const UNSUITED: Duration = Duration::from_secs(60);
/// Requests in progress at a time for one WorkloadSpread.
const CONCURRENCY: usize = 8;

impl Kept for Spread {
    /// The namespace.
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        let metadata = &self.object().metadata;
        Identity::from(metadata)
    }

    fn groups(&self) -> Vec<Box<str>> {
        vec![self.namespace().into()]
    }
}

impl Readable for Spread {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}

struct Controller {
    client: Client,
    spreads: Store<Spread>,
    stores: Arc<Stores>,
    event_sender: EventSender,
    context: Context,
    discovery: Discovery,
    unsuited: Mutex<Unsuited>,
}

/// Pods that no subset suits, by UID: the generation of their WorkloadSpread, and since when.
type Unsuited = HashMap<Box<str>, (Option<i64>, Instant)>;

/// A Pod, and its whole text.
type Whole = (Arc<ObservedPod>, String);

/// What is known of Pods that may be adopted.
#[derive(Default)]
struct Candidates {
    /// The Pods as a whole.
    texts: Vec<Whole>,
    nodes: Arc<Nodes>,
    /// Those that a later reconcile reads, by UID.
    later: HashSet<Box<str>>,
    /// When the next reconcile is due for them.
    next: Option<Duration>,
}

/// The target of a WorkloadSpread, as far as it is known.
struct Target {
    pods: Vec<Arc<ObservedPod>>,
    replicas: i32,
    latest: Option<String>,
}

/// Reconciles WorkloadSpreads. Never returns.
pub async fn run(context: Context, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.workloadspread_workers };
    Builder::new(&context, settings, "Spread", |event_sender| Controller {
        client: context.client.clone(),
        spreads: Store::default(),
        stores: stores.clone(),
        event_sender,
        context: context.clone(),
        discovery: Discovery::default(),
        unsuited: Mutex::default(),
    })
    .watches(
        (SPREADS, "workloadspreads"),
        |all| &all.spreads,
        |_, change| {
            let due = trigger::of_spread(change.old.as_deref(), change.new.as_deref());
            change.states().next().map(|spread| (spread.key(), due))
        },
    )
    .shows(&objects::workloadspread::TABLE, |all| all.spreads.all(), Spread::object)
    .woken_by(stores.pods.subscribe(), Controller::of_pod)
    .woken_by_each(stores.finder.subscribe(), Controller::of_workload)
    .run()
    .await;
}

/// Whether WorkloadSpreads are in use.
pub(crate) fn is_on(context: &Context) -> bool {
    context.settings.gates.enabled(Feature::WorkloadSpread)
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let Some(spread) = self.spreads.get(key).filter(|spread| spread.is_active()) else {
            self.stores.pods.leave(KIND, key);
            return Ok(Next::Done);
        };
        // Pods of Kruise's own workloads are kept anyway.
        if spread.target().group == api::APPS_GROUP {
            self.stores.pods.leave(KIND, key);
            self.stores.pods.synced().await;
        } else {
            self.stores.pods.want(KIND, key);
            self.stores.pods.complete(&self.client, &key.0).await?;
        }
        self.advance(&spread).await
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.spreads.get(key).map(|spread| spread.reference(&SPREADS))
    }
}

impl Controller {
    fn versioned(&self) -> &VersionedKinds {
        &self.context.settings.versioned
    }

    async fn advance(&self, spread: &Spread) -> Result<Next, ReconcileError> {
        let mut target =
            self.target(spread).await.inspect_err(|error| self.record_unreadable_target(spread, error))?;
        let now = now().now;
        let Candidates { texts, nodes, later, next: more } =
            self.candidates(spread, &target.pods, now).await?;
        // Nobody knows yet whether a subset takes them: they are left alone until then.
        target.pods.retain(|pod| !later.contains(&pod.metadata.uid));
        let candidates = texts.iter().filter_map(|(pod, text)| {
            let node = nodes.get(&*pod.spec.node_name)?.named(&pod.spec.node_name);
            Some((pod.metadata.name.clone(), Candidate { pod: text, node }))
        });
        let candidates: BTreeMap<_, _> = candidates.collect();
        let snapshot = Snapshot {
            spread,
            pods: &target.pods,
            replicas: target.replicas,
            latest: target.latest.as_deref(),
            versioned: self.versioned(),
            candidates: &candidates,
        };
        let plan = plan(&snapshot, now);
        self.remember_unsuited(spread, &plan, &texts);
        self.write_pods(spread, &plan.pods).await?;
        for event in &plan.events {
            self.event_sender.record(spread.reference(&SPREADS), event.clone());
        }
        if !self.write_status(spread, plan.status).await? {
            return Ok(Next::After(RETRY_DELAY));
        }
        self.delete(spread, &plan.stuck).await?;
        let unwatched = (!custom::is_built_in(spread.target()) || !spread.replicas_paths().is_empty())
            .then_some(UNWATCHED);
        let next = plan.next.map(|next| next.unsigned_abs()).into_iter().chain(unwatched).chain(more).min();
        Ok(next.map_or(Next::Done, Next::After))
    }

    /// The Pods of the target and how many it wants.
    async fn target(&self, spread: &Spread) -> Result<Target, ReconcileError> {
        let (finder, target) = (&self.stores.finder, spread.target());
        let api_version = custom::api_version(spread);
        let reference = Reference { api_version, kind: &target.kind, name: &target.name, uid: None };
        let world = self.context.index.world();
        let Some(workload) = finder.find(&self.client, spread.namespace(), reference).await? else {
            return Ok(Target { pods: Vec::new(), replicas: 0, latest: None });
        };
        let listed = match world.spreads().custom() {
            Err(problem) if !custom::is_built_in(target) && spread.replicas_paths().is_empty() => {
                return Err(ReconcileError::Action(format!("{}: {problem}", custom::WHITE_LIST)));
            }
            listed => listed.unwrap_or(&custom::NONE),
        };
        let mut pods = finder.pods(&self.stores.pods, &workload).await?;
        if !custom::is_built_in(target) {
            let known: HashSet<_> = pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
            let of_namespace = self.stores.pods.of_namespace(spread.namespace());
            let others = of_namespace.iter().filter(|pod| !known.contains(&pod.metadata.uid));
            pods.extend(custom::behind_parts(spread, listed, others));
        }
        let sets = finder.replica_sets(&workload).await?;
        let latest = version::latest(&workload, &sets, self.versioned());
        let replicas = match self.given_replicas(spread, listed, api_version).await? {
            Some(replicas) => replicas,
            None => match &workload.hidden {
                Some(problem) => return Err(ReconcileError::Unreadable(problem.clone())),
                None => workload.replicas.or(workload.parallelism).unwrap_or(0),
            },
        };
        Ok(Target { pods, replicas, latest })
    }

    /// Records an Event that says why nothing is counted.
    fn record_unreadable_target(&self, spread: &Spread, error: &ReconcileError) {
        if let ReconcileError::Unreadable(_) = error {
            let event = Event { warning: true, reason: "ReadTargetFailed", message: error.message() };
            self.event_sender.record(spread.reference(&SPREADS), event);
        }
    }

    /// The replicas of a target that says so at paths which the user gives.
    async fn given_replicas(
        &self,
        spread: &Spread,
        listed: &CustomWorkloads,
        api_version: &str,
    ) -> Result<Option<i32>, ReconcileError> {
        let target = spread.target();
        if custom::given_paths(spread, listed).is_empty() {
            return Ok(None);
        }
        let reference = (api_version, &*target.kind, &*target.name);
        let text = self.discovery.get(&self.client, spread.namespace(), reference).await?;
        let Some(text) = text else { return Ok(None) };
        let workload = serde_json::from_str(&text).map_err(ReconcileError::of_object("workload"))?;
        custom::replicas(spread, listed, &workload).map_err(ReconcileError::Action)
    }

    /// The Pods that may be adopted, as a whole, and the Nodes. A reconcile reads a limited number of them, so that no number of Pods fills the memory or keeps a worker for long.
    async fn candidates(
        &self,
        spread: &Spread,
        pods: &[Arc<ObservedPod>],
        now: jiff::Timestamp,
    ) -> Result<Candidates, ReconcileError> {
        let generation = spread.object().metadata.generation;
        let is_unsuited = |pod: &ObservedPod| {
            let known = self.unsuited.lock().unwrap_or_else(PoisonError::into_inner);
            let known = known.get(&pod.metadata.uid).copied();
            known.is_some_and(|(of, since)| of == generation && since.elapsed() < UNSUITED)
        };
        let wanted: Vec<_> = unmarked(spread, pods, now).filter(|pod| !is_unsuited(pod)).collect();
        if wanted.is_empty() {
            return Ok(Candidates::default());
        }
        let nodes = self.stores.nodes.facts().await?;
        // A Node may be known later than the Pod that was bound to it.
        let (known, unknown): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|pod| nodes.contains_key(&*pod.spec.node_name));
        let (first, rest) = known.split_at(known.len().min(CANDIDATES));
        let later = rest.iter().chain(&unknown).map(|pod| pod.metadata.uid.clone()).collect();
        let next = match (rest, &*unknown) {
            ([], []) => None,
            ([], _) => Some(UNWATCHED),
            _ => Some(RETRY_DELAY),
        };
        let reads: Vec<_> = first.iter().map(|pod| self.read((*pod).clone())).collect();
        let read: Vec<_> = stream::iter(reads).buffer_unordered(CONCURRENCY).collect().await;
        let texts = read.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(Candidates { texts, nodes, later, next })
    }

    /// A Pod as a whole.
    async fn read(&self, pod: Arc<ObservedPod>) -> Result<Option<Whole>, ReconcileError> {
        let path = PODS.namespaced(pod.namespace()).name(pod.name());
        let text = write::get(&self.client, &path).await?;
        Ok(text.map(|text| (pod, text)))
    }

    /// Notes which candidates no subset took.
    fn remember_unsuited(&self, spread: &Spread, plan: &Plan, candidates: &[Whole]) {
        if candidates.is_empty() {
            return;
        }
        let mut unsuited = self.unsuited.lock().unwrap_or_else(PoisonError::into_inner);
        unsuited.retain(|_, (_, since)| since.elapsed() < UNSUITED);
        for (pod, _) in candidates {
            if !plan
                .pods
                .iter()
                .any(|patched| patched.pod.metadata.uid == pod.metadata.uid && patched.is_adopted())
            {
                unsuited
                    .insert(pod.metadata.uid.clone(), (spread.object().metadata.generation, Instant::now()));
            }
        }
    }

    /// Patches Pods; a failure ends the reconcile.
    async fn write_pods(&self, spread: &Spread, patches: &[PodPatch]) -> Result<(), ReconcileError> {
        let writes: Vec<_> = patches.iter().map(|patched| self.write_pod(spread, patched)).collect();
        let outcomes: Vec<_> = stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
        outcomes.into_iter().collect()
    }

    async fn write_pod(&self, spread: &Spread, patched: &PodPatch) -> Result<(), ReconcileError> {
        let path = PODS.namespaced(patched.pod.namespace()).name(patched.pod.name());
        let answer =
            write::patch(&self.client, &path, PatchKind::StrategicMerge, patched.patch.clone()).await;
        match unless_outdated(answer) {
            Ok(None) => Ok(()),
            Ok(Some(text)) => self.stores.pods.written(&text).map(drop),
            Err(error) => {
                if let Some(event) = patched.on_failure() {
                    self.event_sender.record(spread.reference(&SPREADS), event.clone());
                }
                Err(error.into())
            }
        }
    }

    /// Writes the status; false where the WorkloadSpread was in another state.
    async fn write_status(&self, spread: &Spread, patch: Option<String>) -> Result<bool, ReconcileError> {
        let Some(patch) = patch else { return Ok(true) };
        let path = SPREADS.namespaced(spread.namespace()).name(spread.name()).subresource("status");
        self.spreads.take_in(KIND, write::patch(&self.client, &path, PatchKind::Merge, patch).await)
    }

    /// Deletes Pods that find no node.
    async fn delete(&self, spread: &Spread, stuck: &[Stuck]) -> Result<(), ReconcileError> {
        for Stuck { pod, on_failure } in stuck {
            let path = PODS.namespaced(pod.namespace()).name(pod.name());
            let deleted = write::delete(&self.client, &path, deletion(pod.uid(), None)).await;
            unless_outdated(deleted)
                .inspect_err(|_| self.event_sender.record(spread.reference(&SPREADS), on_failure.clone()))?;
        }
        Ok(())
    }

    fn of_pod(&self, change: &Change<ObservedPod>) -> Option<(Key, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let (name, due) = trigger::of_pod(old, new, self.versioned())?;
        let key = (old.or(new)?.namespace().to_owned(), name);
        self.spreads.get(&key).is_some().then_some((key, due))
    }

    fn of_workload(&self, change: &Change<ResolvedWorkload>) -> Vec<(Key, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(namespace) = old.or(new).map(Kept::namespace) else { return Vec::new() };
        let spreads = self.spreads.group(&namespace.into());
        let concerned = spreads.iter().filter(|spread| trigger::of_workload(spread, old, new));
        concerned.map(|spread| (spread.key(), Duration::ZERO)).collect()
    }
}

#[cfg(test)]
mod tests;
