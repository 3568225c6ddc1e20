//! Controller `sidecarset-controller`: records what a SidecarSet says in ControllerRevisions, updates the
//! sidecars of running Pods and counts them (docs/behaviour/sidecarset.md). Beside it the accounts are kept:
//! which Pods have the sidecars, and why the others have not.
//!
//! ```text
//!   SidecarSets, ControllerRevisions, Pods --(old, new)--> triggers --names--> queue
//!   reconcile: snapshot --> history::plan --> write --> rollout::plan --> status, Pods, Events
//!                  ^------------------ what the writes returned ----------------'
//! ```
//!
//! A Pod whose update the API server refuses is left alone for a while, one whose budget has nothing left until that has,
//! and others go in its place. Only trouble that concerns all of them makes the SidecarSet rest.
//!
//! What a plan costs grows with the Pods of the SidecarSet, and each of them changes several times while
//! it is updated. So after a plan a SidecarSet rests for a multiple of the time that the plan took:
//! planning takes a small, constant share of the time however many Pods there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use admission::world::Watched;
use cluster::resource::{PODS, Resource};
use cluster::write::{self, PatchKind, unless_outdated};
use futures::{StreamExt, stream};
use informers::Index;
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::podunavailablebudget::terms::Operation;
use kinds::sidecarset::history::{self, Registration};
use kinds::sidecarset::index::Entry;
use kinds::sidecarset::rollout::{self, Plan, PodUpdate, RolloutSet, Snapshot, Trigger, injected};
use kinds::workload::namespace::Namespace;
use kube::Client;
use pod::observed::ObservedPod;
use tokio::sync::mpsc::unbounded_channel;
use tracing::{info, warn};
use values::canonical::CanonicalError;
use values::event::Event;
use values::json_patch::string;

use crate::metrics::objects;
use crate::workload::budgets::{Budgets, Exhausted, Spent};
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use crate::workload::carry_out::{Carried, carry_out};
use crate::workload::limiter::{CpuTime, Limiter};
use crate::workload::pods::Pods;
use crate::workload::store::follow::Readable;
use crate::workload::store::{Change, Identity, Kept, Store, key};
use crate::workload::stores::Stores;
use crate::workload::unconfirmed::{Unconfirmed, Unread};
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;

mod account;
mod memory;
mod revisions;
#[cfg(test)]
mod tests;

use account::Rollouts;
use memory::{Memory, Standstill};

const NAME: &str = "sidecarset-controller";
const SIDECAR_SETS: Resource<'_> =
    Resource::new(api::sidecarset::API_VERSION, api::sidecarset::PLURAL, api::sidecarset::KIND);
/// Pods that are written to at a time.
const CONCURRENCY: usize = 4;
/// Pause before others are updated in the place of Pods that were refused, and before a plan on what has changed.
const OTHERS: Duration = Duration::from_millis(20);
/// A SidecarSet is reconciled again after this time even if no event reports it: selectors may match
/// otherwise once a namespace has got other labels.
const SAFETY_NET: Duration = Duration::from_secs(300);

impl Kept for RolloutSet {
    type Group = ();

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: "", name: &self.name, uid: &self.uid, resource_version: &self.resource_version }
    }
}

impl Readable for RolloutSet {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}

struct Controller {
    client: Client,
    stores: Arc<Stores>,
    pods: Arc<Pods>,
    sets: Store<RolloutSet>,
    index: Arc<Index>,
    event_sender: EventSender,
    limiter: Limiter<Box<str>>,
    unconfirmed: Unconfirmed<Box<str>>,
    memory: Memory,
    budgets: Budgets<Box<str>>,
    rollouts: Rollouts,
}

/// What came of the writes to a Pod, or the budget that has nothing left for them.
type Outcome = Result<Result<Carried, Exhausted>, ReconcileError>;

/// What came of the writes of a plan.
#[derive(Default)]
struct Written {
    /// Some Pods had changed, or the SidecarSet had; a watch reports it.
    outdated: bool,
    /// Some Pods had changed, which is known by now.
    known: bool,
    /// Some Pods were refused, or their budgets have nothing left.
    refused: bool,
    /// Trouble with the API server.
    failed: Option<ReconcileError>,
}

/// Reconciles SidecarSets. Never returns.
pub async fn run(context: Context, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.sidecarset_workers };
    let (of_pods, of_revisions) = (stores.pods.subscribe(), stores.revisions.stored.subscribe());
    let (accounts, of_accounts) = (unbounded_channel(), context.clone());
    Builder::new(&context, settings, "Update", |event_sender| {
        Controller::new(&context, stores, event_sender, Rollouts::new(accounts.0.clone()))
    })
    .watches((SIDECAR_SETS, NAME), |all| &all.sets, Controller::of_set)
    // The store has no more of each than a rollout reads.
    .shows(
        &objects::sidecarset::TABLE,
        |all| all.index.world().sidecar_sets().iter().cloned().collect(),
        |entry: &Entry| &entry.object,
    )
    .woken_by(of_revisions, |_, change| revisions::lost(change))
    .woken_by(of_pods, Controller::of_pod)
    .beside(|controller, names| async move { controller.budgets.wake(names).await })
    .beside(|controller, _| account::run(of_accounts, controller, accounts))
    .after(|controller| async move { controller.stores.synced().await })
    .run()
    .await;
}

impl Reconciler for Controller {
    type Key = Box<str>;
    type Error = ReconcileError;

    async fn reconcile(&self, name: &Box<str>) -> Result<Next, ReconcileError> {
        self.budgets.forget(name);
        let Some(set) = self.sets.get(&key(name)).filter(|set| !set.deleting) else {
            self.limiter.forget(name);
            self.unconfirmed.forget(name);
            self.memory.forget(name);
            self.rollouts.forget(name);
            return Ok(Next::Done);
        };
        if let Some(rest) = self.limiter.rest(name) {
            return Ok(Next::After(rest));
        }
        if !self.index.can_answer(Watched::Namespace) {
            return Ok(Next::After(OUTDATED_RETRY));
        }
        let next = self.advance(&set).await;
        self.limiter.ended(name, next.is_ok());
        next
    }

    fn object(&self, name: &Box<str>) -> Option<ObjectReference> {
        self.sets.get(&key(name)).map(|set| set.reference(&SIDECAR_SETS))
    }

    fn panicked(&self, name: &Box<str>) {
        self.limiter.ended(name, false);
    }
}

impl Controller {
    fn new(context: &Context, stores: Arc<Stores>, event_sender: EventSender, rollouts: Rollouts) -> Self {
        let (client, index) = (context.client.clone(), context.index.clone());
        Self {
            budgets: Budgets::new(client.clone(), index.clone(), context.settings.gates.clone()),
            pods: stores.pods.clone(),
            stores,
            event_sender,
            sets: Store::default(),
            limiter: Limiter::default(),
            unconfirmed: Unconfirmed::default(),
            memory: Memory::default(),
            rollouts,
            index,
            client,
        }
    }

    /// A SidecarSet that is new, or says something else (docs/behaviour/sidecarset.md#triggers), or whose
    /// status is not ours.
    fn of_set(&self, change: &Change<RolloutSet>) -> Option<(Box<str>, Duration)> {
        let said = |set: &Arc<RolloutSet>| (set.uid.clone(), set.generation, set.deleting);
        let name = change.states().next()?.name.clone();
        let news = change.old.as_ref().map(said) != change.new.as_ref().map(said);
        if news {
            self.limiter.wake(&name);
            self.memory.forgive(&name);
        }
        let foreign = || {
            let present = self.sets.get(&key(&name));
            present.is_some_and(|set| !self.memory.is_our_status(&name, &set.status))
        };
        (news || foreign()).then_some((name, Duration::ZERO))
    }

    /// The SidecarSets of a Pod to which its change matters.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Box<str>, Duration)> {
        let mut names: Vec<&str> = change.states().flat_map(|pod| injected(pod)).collect();
        names.sort_unstable();
        names.dedup();
        let due = |name: &str| {
            let set = self.sets.get(&key(name))?;
            match rollout::trigger(&set, change.old.as_deref(), change.new.as_deref()) {
                Trigger::Nothing => {
                    let is_due = self.is_released(name, change) || self.memory.awaits(name, change);
                    is_due.then(|| (name.into(), Duration::ZERO))
                }
                Trigger::Now => Some((name.into(), Duration::ZERO)),
                Trigger::After(pause) => Some((name.into(), pause.unsigned_abs())),
            }
        };
        names.into_iter().filter_map(due).collect()
    }

    /// The budget that withholds the Pod holds it no more.
    fn is_released(&self, name: &str, change: &Change<ObservedPod>) -> bool {
        let Some(pod) = &change.new else { return false };
        self.memory.withholds(name, pod).is_some_and(|budget| self.budgets.may_pass(pod, &budget))
    }

    async fn advance(&self, set: &RolloutSet) -> Result<Next, ReconcileError> {
        let name = &*set.name;
        self.memory.await_nothing(name);
        let read = async |(_, pod): Unread| self.pods.read(&self.client, &pod).await.map(drop);
        self.unconfirmed.confirm(&set.name, read).await?;
        let time = CpuTime::begin();
        let (pods, complete) = self.pods_of(set);
        let planned = time.taken();
        if !self.knows_newest(set, &pods).await? {
            return Ok(Next::After(OUTDATED_RETRY));
        }
        let time = CpuTime::begin();
        let stored = self.revisions_of(name);
        let namespace = &self.stores.revisions.install_namespace;
        let registration = history::plan(set, &stored, &pods, namespace);
        let planned = planned.saturating_add(time.taken());
        let (latest, collision_count) = self.record(set, registration).await?;
        let (mut refused, retry) = self.memory.refusals(name, &pods);
        let time = CpuTime::begin();
        let spent = Spent::default();
        let holding =
            |pod: &ObservedPod, budget: &Exhausted| self.budgets.holding(&set.name, pod, budget, &spent);
        refused.extend(self.memory.withheld(name, &pods, holding));
        let snapshot =
            Snapshot { set, pods: &pods, revisions: &stored, latest_revision: &latest, collision_count };
        let plan = rollout::plan_around(&snapshot, &refused, now().now);
        self.rollouts.planned(set, &plan, &pods);
        self.limiter.worked(&set.name, planned.saturating_add(time.taken()));
        if let Some(pause) = self.write_status(set, plan.status.as_deref()).await? {
            return Ok(Next::After(pause));
        }
        for event in &plan.events {
            self.event_sender.record(set.reference(&SIDECAR_SETS), event.clone());
        }
        let written = self.write_pods(set, &plan).await;
        if let Some(error) = written.failed {
            return Err(error);
        }
        if written.refused || written.known {
            return Ok(Next::After(OTHERS));
        }
        if written.outdated || !complete {
            return Ok(Next::After(OUTDATED_RETRY));
        }
        let look = self.explain(set, &plan).await;
        Ok(Next::After(retry.map_or(look, |retry| retry.min(look))))
    }

    /// False where Pods came with other sidecars than the SidecarSet is known to have, since it has changed: the watch of
    /// admission is ahead of ours, and they are not to be taken back (docs/behaviour/sidecarset.md#reconcile).
    async fn knows_newest(
        &self,
        set: &RolloutSet,
        pods: &[Arc<ObservedPod>],
    ) -> Result<bool, ReconcileError> {
        let outdated = pods.iter().filter(|pod| rollout::is_outdated(set, pod));
        let outdated: BTreeSet<Box<str>> = outdated.map(|pod| pod.metadata.uid.clone()).collect();
        if self.memory.knows_outdated(&set.name, &outdated) {
            return Ok(true);
        }
        let Some(live) = self.live(&set.name).await? else { return Ok(false) };
        let is_newest = live.uid == set.uid && live.generation <= set.generation;
        if is_newest {
            self.memory.outdated(&set.name, outdated);
        }
        Ok(is_newest)
    }

    /// The SidecarSet as the API server has it, which is taken in.
    async fn live(&self, name: &str) -> Result<Option<Arc<RolloutSet>>, ReconcileError> {
        self.sets.read(&self.client, &SIDECAR_SETS, &key(name)).await
    }

    /// Writes the revisions; gives the name of the current one and the count of collisions. One that is
    /// refused is reported and holds up nothing: the one before stays current.
    async fn record(
        &self,
        set: &RolloutSet,
        registration: Result<Option<Registration>, CanonicalError>,
    ) -> Result<(String, i32), ReconcileError> {
        let recorded = match registration {
            Ok(registration) => self.write_revisions(set, registration).await,
            Err(error) => Err(error.into()),
        };
        let problem = match &recorded {
            Err(error @ ReconcileError::Record(_)) => Some(error.to_string()),
            Err(error) if error.is_refusal() => Some(error.message()),
            _ => None,
        };
        let Some(message) = problem else { return recorded };
        let event = Event { warning: true, reason: "RevisionRefused", message };
        self.event_sender.record(set.reference(&SIDECAR_SETS), event);
        Ok((set.status.latest_revision.clone(), set.status.collision_count.unwrap_or(0)))
    }

    /// The Pods that name the SidecarSet, in the namespaces that it selects; and whether all of these
    /// namespaces are known.
    fn pods_of(&self, set: &RolloutSet) -> (Vec<Arc<ObservedPod>>, bool) {
        let world = self.index.world();
        let mut namespaces: BTreeMap<&str, bool> = BTreeMap::new();
        let (all, mut complete) = (self.pods.injected_by(&set.name), true);
        for pod in &all {
            let name = &*pod.metadata.namespace;
            namespaces.entry(name).or_insert_with(|| {
                let labels = world.namespace(name).map(Namespace::labels);
                complete &= labels.is_some();
                set.selects_namespace(labels)
            });
        }
        let selected = |pod: &&Arc<ObservedPod>| namespaces.get(&*pod.metadata.namespace) == Some(&true);
        (all.iter().filter(selected).cloned().collect(), complete)
    }

    /// Brings the status up to date. If the SidecarSet is gone or has changed, gives when to plan anew: no trigger
    /// reports of a change of its annotations. The resource version says so: a UID is not checked in a patch of a
    /// status.
    async fn write_status(
        &self,
        set: &RolloutSet,
        patch: Option<&str>,
    ) -> Result<Option<Duration>, ReconcileError> {
        let Some(patch) = patch else {
            self.memory.said(&set.name, set.status.clone());
            return Ok(None);
        };
        let version = string(&set.resource_version);
        let members = patch.strip_prefix('{').unwrap_or(patch);
        let patch = format!(r#"{{"metadata":{{"resourceVersion":{version}}},{members}"#);
        let path = SIDECAR_SETS.all().name(&set.name).subresource("status");
        let answer = write::patch(&self.client, &path, PatchKind::Merge, patch).await;
        let Some(text) = unless_outdated(answer)? else {
            let newer = self.live(&set.name).await?;
            let is_newer = newer.is_some_and(|live| live.resource_version != set.resource_version);
            return Ok(Some(if is_newer { OTHERS } else { OUTDATED_RETRY }));
        };
        let after = RolloutSet::read(&text).map_err(ReconcileError::of_object("SidecarSet"))?;
        self.memory.said(&set.name, after.status.clone());
        self.sets.written(after);
        Ok(None)
    }

    /// Carries out what is planned for Pods. One that fails does not hold the others.
    async fn write_pods(&self, set: &RolloutSet, plan: &Plan) -> Written {
        let spent = Spent::default();
        let writes: Vec<_> = plan.pods.iter().map(|update| self.write_pod(set, update, &spent)).collect();
        let outcomes: Vec<_> = stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
        let mut written = Written::default();
        let mut failures = Vec::new();
        for (pod, outcome) in outcomes {
            let name = || format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
            match outcome {
                Ok(Ok(Carried::Written(_))) => {}
                Ok(Ok(Carried::Outdated)) => {
                    // Noted before the reconcile: what comes in between is not missed.
                    self.memory.await_change(&set.name, pod);
                    let version = |pod: &ObservedPod| pod.metadata.resource_version.clone();
                    let present = self.pods.get(&pod.key());
                    let is_known = present.is_none_or(|present| version(&present) != version(pod));
                    written.known |= is_known;
                    written.outdated |= !is_known;
                }
                Ok(Err(budget)) => {
                    written.refused = true;
                    self.memory.withhold(&set.name, pod, budget);
                }
                Err(error) if error.is_refusal() => {
                    written.refused = true;
                    let message = error.message();
                    if self.memory.refused(&set.name, pod, &message) {
                        warn!(
                            sidecar_set = &*set.name,
                            pod = name(),
                            reason = message,
                            "the update of a Pod is refused"
                        );
                    }
                }
                Err(error) => {
                    self.unconfirmed.note(&set.name, (PODS, pod.key()));
                    failures.push(format!("{}: {}", name(), error.message()));
                }
            }
        }
        let failed = failures.len();
        written.failed =
            failures.into_iter().next().map(|first| ReconcileError::Several { of: "Pods", failed, first });
        written
    }

    async fn write_pod<'u>(
        &self,
        set: &RolloutSet,
        update: &'u PodUpdate,
        spent: &Spent,
    ) -> (&'u ObservedPod, Outcome) {
        let outcome = self.try_write(set, update, spent).await;
        let event = match &outcome {
            Ok(Ok(Carried::Written(_))) => update.on_success(),
            Ok(_) => None,
            Err(error) => update.on_failure(&error.message()),
        };
        if let Some(event) = event {
            self.event_sender.record(update.pod.reference(&PODS), event);
        }
        (&update.pod, outcome)
    }

    async fn try_write(&self, set: &RolloutSet, update: &PodUpdate, spent: &Spent) -> Outcome {
        // A plan may have thousands of writes, and a pause shall not wait for them.
        if !self.is_current(set) {
            return Ok(Ok(Carried::Outdated));
        }
        let changes = update.writes.iter().any(|write| !write.containers.is_empty());
        if changes
            && let Some(budget) = self.budgets.bear(&set.name, &update.pod, Operation::Update, spent).await?
        {
            return Ok(Err(budget));
        }
        carry_out(&self.client, &self.pods, &update.pod, &update.writes).await.map(Ok)
    }

    /// True while the SidecarSet says what was planned for.
    fn is_current(&self, set: &RolloutSet) -> bool {
        let present = self.sets.get(&key(&set.name)).filter(|present| !present.deleting);
        present.is_some_and(|present| (&present.uid, present.generation) == (&set.uid, set.generation))
    }

    /// Reports why Pods wait, once they have for a while; gives the time of the next reconcile.
    async fn explain(&self, set: &RolloutSet, plan: &Plan) -> Duration {
        let summary = plan.pods.is_empty().then(|| plan.summary()).flatten();
        match self.memory.standstill(&set.name, summary.as_deref()) {
            Standstill::No => SAFETY_NET,
            Standstill::Since(rest) => rest,
            Standstill::Report => {
                let message = summary.unwrap_or_default();
                info!(sidecar_set = &*set.name, reason = message, "Pods wait for their update");
                let event = Event { warning: false, reason: "UpdateWaits", message };
                self.event_sender.record(set.reference(&SIDECAR_SETS), event);
                SAFETY_NET
            }
        }
    }
}
