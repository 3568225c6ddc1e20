//! The controller of a kind of workload, the same for all of them.
//!
//! ```text
//!   workloads, Pods, claims, ControllerRevisions --(old, new)--> keys --> queue
//!   reconcile: snapshot --> Workload::plan --> executor --> status, Events
//!                 ^---------- what the writes returned ---'
//! ```
//!
//! What to do is decided by the kind's plan; here it is gathered and carried out. After a plan a workload rests
//! for a multiple of the time that the plan took, so that planning takes a small, constant share of the time
//! however many Pods there are and however often they change.
//!
//! What the API server refuses is tried again after pauses that grow, what a budget of ours does not bear when that has
//! something to give; everything else continues meanwhile. Only where no plan can be made at all the workload as a whole
//! rests longer and longer. A workload whose namespace is being deleted is left alone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::features::Feature;
use api::kinds::imagepulljob;
use api::labels::CONTROLLER_REVISION_HASH;
use cluster::resource::Resource;
use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use cluster::{ApiError, Retry};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::workload::action::Action;
use kinds::workload::children::Child;
use kinds::workload::kind::Workload;
use kinds::workload::object_version::ObjectVersion;
use kinds::workload::plan::{Outcome, Plan};
use kinds::workload::snapshot::{Environment, Snapshot};
use kinds::workload::status::StatusPlan;
use kinds::workload::trigger;
use kube::Client;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use tracing::{debug, warn};
use values::event::Event;
use values::selector::Selector;
use values::server_version::ServerVersion;

use super::budgets::{Budgets, Spent};
use super::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use super::controller_revisions::Group;
use super::limiter::{CpuTime, Limiter};
use super::memory::{Memory, STATUS};
use super::nodes::NodeChange;
use super::revisions::RevisionWriter;
use super::spread_slots::SpreadSlots;
use super::store::follow::Readable;
use super::store::{Change, Identity, Kept, Store, named};
use super::stores::Stores;
use super::unconfirmed::Unconfirmed;
use crate::metrics::objects::Table;
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;

/// ImagePullJobs.
const PULL_JOBS: Resource<'_> =
    Resource::new(imagepulljob::API_VERSION, imagepulljob::PLURAL, imagepulljob::KIND);
/// A workload is reconciled again after this time even if no event reports it.
const SAFETY_NET: Duration = Duration::from_secs(600);

/// A workload as it is kept.
#[derive(Debug)]
pub(crate) struct Stored<W>(pub(crate) W);

impl<W: Workload> Kept for Stored<W> {
    type Group = ();

    fn identity(&self) -> Identity<'_> {
        Identity::from(self.0.metadata())
    }
}

impl<W: Workload> Readable for Stored<W> {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json).map(Self)
    }
}

/// Reconciles the workloads of one kind.
pub(crate) struct Controller<W: Workload> {
    pub(super) client: Client,
    pub(crate) context: Context,
    pub(super) environment: Environment,
    pub(crate) stores: Arc<Stores>,
    pub(crate) workloads: Store<Stored<W>>,
    pub(crate) limiter: Limiter<Key>,
    pub(super) unconfirmed: Unconfirmed<Key>,
    pub(super) budgets: Budgets<Key>,
    pub(super) spread_slots: SpreadSlots,
    memories: Mutex<HashMap<Key, Memory>>,
    event_sender: EventSender,
}

/// One reconcile, once it is planned.
pub(super) struct Work<'a, W> {
    pub(super) workload: &'a W,
    /// The Pods that the plan writes to, by UID.
    written: HashMap<Box<str>, Arc<ObservedPod>>,
    /// How many Pods have not ended.
    present: usize,
    /// Budgets that let no more updates begin.
    pub(super) spent: Spent,
}

/// What became of the status.
enum StatusWrite {
    Done,
    /// The workload is gone, or in another state by now.
    Outdated,
    /// It is not tried now.
    Held,
    Refused(String),
}

impl StatusWrite {
    fn refusal(self) -> Option<String> {
        match self {
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl<'a, W: Workload> Work<'a, W> {
    /// Keeps only the Pods that are needed: the stores get newer states while the plan is carried out, which
    /// takes long, and each old one would be kept beside its successor.
    fn new(workload: &'a W, pods: Vec<Arc<ObservedPod>>, plan: &Plan<W::Status>) -> Self {
        let ended = |pod: &&Arc<ObservedPod>| matches!(&*pod.status.phase, "Succeeded" | "Failed");
        let present = pods.iter().filter(|pod| !ended(pod)).count();
        let written: HashSet<&str> = plan.actions().filter_map(Action::written_pod).collect();
        let needed = pods.into_iter().filter(|pod| written.contains(&*pod.metadata.uid));
        let written = needed.map(|pod| (pod.metadata.uid.clone(), pod)).collect();
        Self { workload, written, present, spent: Spent::default() }
    }

    /// The Pod, if the snapshot has it.
    pub(super) fn pod(&self, observed: &ObjectVersion) -> Option<&ObservedPod> {
        self.written.get(observed.uid.as_str()).map(|pod| &**pod)
    }
}

/// Reconciles the workloads of kind `W`, whose metrics are in `table`. Never returns.
pub(crate) async fn run<W: Workload>(
    settings: QueueSettings,
    table: &'static Table<W>,
    context: Context,
    stores: Arc<Stores>,
) {
    let environment = environment::<W>(&context).await;
    let of_nodes = W::HAS_POD_PER_NODE.then(|| stores.nodes.subscribe());
    Builder::new(&context, settings, "Reconcile", |event_sender| {
        Controller::<W>::new(context.clone(), environment, stores.clone(), event_sender)
    })
    .watches((resource::<W>(), settings.name), |all| &all.workloads, Controller::of_workload)
    .shows(table, |all| all.workloads.all(), |stored| &stored.0)
    .woken_by(stores.pods.subscribe(), |all, Change { old, new }| {
        let mut keys = trigger::of_pod::<W>(old.as_deref(), new.as_deref());
        keys.extend(new.iter().flat_map(|pod| all.adopters(pod)));
        keys.into_iter().map(at_once).collect::<Vec<_>>()
    })
    .woken_by(stores.claims.subscribe(), |_, Change { old, new }| {
        trigger::of_claim::<W>(old.as_deref(), new.as_deref()).into_iter().map(at_once)
    })
    .woken_by(stores.revisions.stored.subscribe(), |_, Change { old, new }| {
        trigger::of_revision::<W>(old.as_deref(), new.as_deref()).into_iter().map(at_once)
    })
    .beside(|controller, keys| async move { controller.budgets.wake(keys).await })
    .woken_by_each(of_nodes.into_iter().collect(), Controller::of_node)
    .after(|controller| async move { controller.stores.synced().await })
    .run()
    .await;
}

/// What the API server can do. It is asked until it answers: plans differ by it.
async fn environment<W: Workload>(context: &Context) -> Environment {
    let gates = &context.settings.gates;
    let wanted = [Feature::KruiseDaemon, W::PRE_DOWNLOAD];
    let pre_download = wanted.into_iter().all(|gate| gates.enabled(gate));
    loop {
        let version = context.client.apiserver_version().await.map_err(ApiError::from);
        let path = PULL_JOBS.all().query("limit=1");
        let jobs = if pre_download { write::get(&context.client, &path).await } else { Ok(None) };
        match (version, jobs) {
            (Ok(version), Ok(jobs)) => {
                return Environment {
                    exclude_preparing_delete: context.settings.cloneset_scaling_exclude_preparing_delete,
                    server: ServerVersion::parse(&version.git_version),
                    pull_jobs: jobs.is_some(),
                    bypasses_scheduler: context.settings.bypassing_scheduler.contains(&W::KIND),
                };
            }
            (Err(error), _) | (_, Err(error)) => {
                debug!(%error, "the API server does not say what it can do");
                tokio::time::sleep(OUTDATED_RETRY).await;
            }
        }
    }
}

fn at_once(key: Key) -> (Key, Duration) {
    (key, Duration::ZERO)
}

pub(super) fn resource<W: Workload>() -> Resource<'static> {
    Resource::new(W::API_VERSION, W::PLURAL, W::KIND)
}

impl<W: Workload> Reconciler for Controller<W> {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        self.budgets.forget(key);
        let Some(stored) = self.workloads.get(key) else {
            self.limiter.forget(key);
            self.unconfirmed.forget(key);
            self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Next::Done);
        };
        let Stored(workload) = &*stored;
        if self.memory(workload, |memory| memory.namespace_ends) {
            return Ok(Next::Done);
        }
        if let Some(rest) = self.limiter.rest(key) {
            return Ok(Next::After(rest));
        }
        let next = self.advance(workload).await;
        match &next {
            // What was refused has pauses of its own.
            Ok(_) | Err(ReconcileError::Action(_)) => self.limiter.ended(key, true),
            Err(error) if error.retry() == Retry::Never => {
                self.memory(workload, |memory| memory.namespace_ends = true);
            }
            Err(_) => self.limiter.ended(key, false),
        }
        next
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.workloads.get(key).map(|stored| reference(&stored.0))
    }

    fn panicked(&self, key: &Key) {
        self.limiter.ended(key, false);
    }
}

impl<W: Workload> Controller<W> {
    pub(crate) fn new(
        context: Context,
        environment: Environment,
        stores: Arc<Stores>,
        event_sender: EventSender,
    ) -> Self {
        let budgets =
            Budgets::new(context.client.clone(), context.index.clone(), context.settings.gates.clone());
        let is_spread = context.settings.gates.enabled(Feature::WorkloadSpread);
        let spread_slots = SpreadSlots::new(context.client.clone(), context.index.clone(), is_spread);
        Self {
            client: context.client.clone(),
            context,
            environment,
            stores,
            workloads: Store::default(),
            limiter: Limiter::default(),
            unconfirmed: Unconfirmed::default(),
            budgets,
            spread_slots,
            memories: Mutex::default(),
            event_sender,
        }
    }

    /// The workload, if it has changed; what its spec says anew is tried at once, whatever was refused before.
    pub(crate) fn of_workload(&self, change: &Change<Stored<W>>) -> Option<(Key, Duration)> {
        let old = change.old.as_deref().map(|Stored(old)| old);
        let new = change.new.as_deref().map(|Stored(new)| new);
        let said = |workload: &W| (workload.metadata().uid.clone(), workload.metadata().generation);
        if let Some(new) = new
            && old.map(said) != Some(said(new))
        {
            self.limiter.wake(&key_of(new));
            self.memory(new, |memory| {
                memory.pauses.clear();
                if W::HAS_PLACES {
                    memory.refused.clear();
                }
            });
        }
        trigger::of_workload(old, new).map(at_once)
    }

    /// The workloads that could adopt a Pod by its labels.
    fn adopters(&self, pod: &ObservedPod) -> Vec<Key> {
        if !W::HAS_POD_PER_NODE || !W::could_adopt(pod) || pod.label(CONTROLLER_REVISION_HASH).is_none() {
            return Vec::new();
        }
        let all = self.workloads.all();
        let matches = |workload: &W| {
            workload.metadata().namespace == *pod.metadata.namespace
                && Selector::compile(workload.selector())
                    .is_ok_and(|selector| !selector.is_empty() && selector.matches(&pod.metadata.labels))
        };
        all.iter().filter(|stored| matches(&stored.0)).map(|stored| key_of(&stored.0)).collect()
    }

    /// The workloads to which the change of the Node makes a difference.
    fn of_node(&self, NodeChange { name, old, new, is_initial }: &NodeChange) -> Vec<(Key, Duration)> {
        if old == new || *is_initial {
            return Vec::new();
        }
        let stored = self.workloads.all();
        let concerned =
            stored.iter().filter(|stored| stored.0.is_concerned(name, old.as_deref(), new.as_deref()));
        concerned.map(|stored| at_once(key_of(&stored.0))).collect()
    }

    async fn advance(&self, workload: &W) -> Result<Next, ReconcileError> {
        self.refresh(workload).await?;
        let metadata = workload.metadata();
        let mut pods = self.stores.pods.owned_by(&metadata.uid);
        let mut orphans = if W::HAS_ORDINALS {
            self.stores.pods.orphans(&metadata.namespace, &metadata.name)
        } else if W::HAS_POD_PER_NODE {
            self.stores.pods.orphans_of_revisions(&metadata.namespace)
        } else {
            Vec::new()
        };
        orphans.retain(|pod| W::could_adopt(pod));
        let nodes =
            if workload.reads_nodes(pods.len()) { self.stores.nodes.facts().await? } else { Arc::default() };
        let children = self.children(workload).await?;
        let time = CpuTime::begin();
        let mut planned = self.plan(workload, (&pods, &orphans), &children, &nodes);
        let mut took = time.taken();
        if let Some(step) = planned.revision.take() {
            let created = self.revisions(workload).write(step).await?;
            if let Some((_, collisions)) = created {
                self.memory(workload, |memory| memory.collision_count = Some(collisions));
            }
            let time = CpuTime::begin();
            planned = self.plan(workload, (&pods, &orphans), &children, &nodes);
            took += time.taken();
            if planned.revision.is_some() {
                return Err(ReconcileError::Unsettled);
            }
        }
        self.limiter.worked(&key_of(workload), took);
        pods.extend(orphans);
        self.carry_out(&Work::new(workload, pods, &planned), planned).await
    }

    fn plan(
        &self,
        workload: &W,
        (pods, orphans): (&[Arc<ObservedPod>], &[Arc<ObservedPod>]),
        children: &[Arc<Child>],
        nodes: &Nodes,
    ) -> Plan<W::Status> {
        let uid = &workload.metadata().uid;
        let namespace = workload.metadata().namespace.as_str();
        let world = self.context.index.world();
        let stored = &self.stores.revisions.stored;
        let mut revisions = stored.group(&Group::Owner(uid.as_str().into()));
        revisions.extend(stored.group(&Group::Orphans(namespace.into())));
        let mut claims = self.stores.claims.group(&uid.as_str().into());
        for stem in workload.claim_stems(pods, &revisions) {
            claims.extend(self.stores.claims.group(&named(namespace, &stem)));
        }
        let (refused, held, failures, collision_count) = self.memory(workload, |memory| {
            if !W::HAS_PLACES {
                memory.keep_refused(&claims);
            }
            let held = memory.pauses.held_updates();
            (memory.refused.clone(), held, memory.failures.clone(), memory.collision_count)
        });
        let snapshot = Snapshot {
            workload,
            pods,
            orphans,
            claims: &claims,
            storage_classes: world.storage_classes(),
            children,
            revisions: &revisions,
            nodes,
            refused: &refused,
            held: &held,
            costs: &self.spread_slots.costs(workload, pods),
            failures: &failures,
            collision_count,
            gates: &self.context.settings.gates,
            environment: self.environment,
        };
        W::plan(&snapshot, now())
    }

    /// Steps 2 to 8 of [`Plan`].
    async fn carry_out(&self, work: &Work<'_, W>, mut plan: Plan<W::Status>) -> Result<Next, ReconcileError> {
        let workload = work.workload;
        for event in std::mem::take(&mut plan.events) {
            self.record(workload, event);
        }
        self.memory(workload, |memory| memory.pauses.review(plan.actions(), work.present));
        let released = self.act(work, &plan.release).await;
        // Creations take long: new Pods must not wait for their conditions until the last one is there.
        let (beside, after) = plan.split_update();
        let (scaled, mut updated) = tokio::join!(self.act(work, &plan.scale), self.act(work, beside));
        let skipped = !after.is_empty() && !scaled.lets_updates_begin();
        if !skipped {
            updated = updated.and(self.act(work, after).await);
        }
        if self.memory(workload, |memory| memory.namespace_ends) {
            return Ok(Next::Done);
        }
        if updated.failure.is_none() {
            // Updates that are held up are not in the plan; the trouble is the same.
            let held = self.memory(workload, |memory| memory.pauses.held_updates());
            updated.failure = held.into_values().next().map(|refusal| refusal.message.into());
        }
        let scale = scaled.outcome(plan.problems.scale);
        let update = match updated.outcome(plan.problems.update) {
            Outcome::Succeeded if skipped => Outcome::Skipped,
            outcome => outcome,
        };
        let status = match plan.status {
            Some(mut status) => {
                if ![&released, &scaled, &updated].iter().any(|done| done.acted) {
                    status.nothing_was_done();
                }
                self.write_status(workload, &status, &scale, &update).await
            }
            None => StatusWrite::Done,
        };
        self.pre_download(work, &plan.pre_download).await;
        let name = &workload.metadata().name;
        if let Some(patch) = plan.owner_patch
            && let Err(error) = self.patch(workload, "", PatchKind::Json, patch).await
        {
            warn!(kind = W::KIND, name, %error, "names of Pods that are gone stay in the spec");
        }
        for revision in &plan.obsolete_revisions {
            if let Err(error) = self.revisions(workload).delete(revision).await {
                warn!(revision = revision.name, %error, "an obsolete ControllerRevision stays");
            }
        }
        let mut problems = [scale, update].into_iter().filter_map(|outcome| match outcome {
            Outcome::Failed(message) => Some(message),
            _ => None,
        });
        let tried =
            released.failed || scaled.failed || updated.failed || matches!(status, StatusWrite::Refused(_));
        let outdated = released.outdated || scaled.outdated || updated.outdated;
        let again = skipped || matches!(status, StatusWrite::Outdated);
        let problem = problems.next().or(released.failure).or(status.refusal());
        let (news, pause) = self
            .memory(workload, |memory| (memory.is_news(problem.as_deref()) || tried, memory.pauses.next()));
        match problem {
            Some(problem) if news => Err(ReconcileError::Action(problem)),
            _ if outdated || again => Ok(Next::After(OUTDATED_RETRY)),
            _ => Ok(Next::After(plan.requeue_after.into_iter().chain(pause).fold(SAFETY_NET, Duration::min))),
        }
    }

    async fn write_status(
        &self,
        workload: &W,
        status: &StatusPlan<W::Status>,
        scale: &Outcome,
        update: &Outcome,
    ) -> StatusWrite {
        let Some(patch) = status.patch(scale, update) else { return StatusWrite::Done };
        if self.memory(workload, |memory| memory.pauses.held(STATUS)).is_some() {
            return StatusWrite::Held;
        }
        match self.patch(workload, "status", PatchKind::Merge, patch).await {
            Ok(written) => {
                self.memory(workload, |memory| memory.pauses.succeeded(STATUS));
                if written { StatusWrite::Done } else { StatusWrite::Outdated }
            }
            Err(error) => {
                let error = error.message();
                self.memory(workload, |memory| memory.pauses.failed(STATUS, &error));
                StatusWrite::Refused(error)
            }
        }
    }

    /// False if the workload is gone, or in another state by now.
    async fn patch(
        &self,
        workload: &W,
        part: &str,
        kind: PatchKind,
        patch: String,
    ) -> Result<bool, ReconcileError> {
        let metadata = workload.metadata();
        let path = resource::<W>().namespaced(&metadata.namespace).name(&metadata.name).subresource(part);
        self.workloads.take_in(W::KIND, write::patch(&self.client, &path, kind, patch).await)
    }

    /// The ControllerRevisions of the workload's namespace.
    pub(super) fn revisions<'a>(&'a self, workload: &'a W) -> RevisionWriter<'a> {
        RevisionWriter {
            client: &self.client,
            stored: &self.stores.revisions.stored,
            namespace: &workload.metadata().namespace,
        }
    }

    // Held for single operations only, never over an await.
    pub(crate) fn memory<T>(&self, workload: &W, use_it: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = memories.entry(key_of(workload)).or_default();
        let uid = &workload.metadata().uid;
        if memory.uid != *uid {
            *memory = Memory::of(uid);
        }
        use_it(memory)
    }

    pub(super) fn record(&self, workload: &W, event: Event) {
        self.event_sender.record(reference(workload), event);
    }
}

pub(super) fn key_of(workload: &impl Workload) -> Key {
    (workload.metadata().namespace.clone(), workload.metadata().name.clone())
}

fn reference<W: Workload>(workload: &W) -> ObjectReference {
    let metadata = workload.metadata();
    ObjectReference {
        api_version: Some(W::API_VERSION.to_owned()),
        kind: Some(W::KIND.to_owned()),
        namespace: Some(metadata.namespace.clone()),
        name: Some(metadata.name.clone()),
        uid: Some(metadata.uid.clone()),
        resource_version: Some(metadata.resource_version.clone()),
        ..ObjectReference::default()
    }
}
