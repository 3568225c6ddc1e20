//! Controller of the accounts of SidecarSets (docs/sidecarset-pods.md): annotation `kutter.io/sidecarset-pods`, metrics, an
//! Event for each missed Pod, and evictions where the user wants them. What they say is decided in
//! `kinds::sidecarset::account`.
//!
//! ```text
//!   Pods, SidecarSets, Namespaces, registration --> Key::Records --.
//!   what the rollouts find -----------------------------------------+--> Key::Account --> Key::Evictions
//! ```
//!
//! It costs
//! - for a change of a Pod one search among the SidecarSets, for changes of SidecarSets and Namespaces one
//!   pass over the records of all Pods, at most a twentieth of the time;
//! - for a SidecarSet at most one write in five seconds, and none where nothing changed. The write changes no
//!   generation, so nobody plans anew;
//! - a bounded number of Events in each minute.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use admission::world::{Watched, World};
use api::annotations::SIDECARSET_PODS;
use cluster::events::{Allowance, Recorder, about_in};
use cluster::resource::PODS;
use cluster::write::{self, PatchKind, unless_outdated};
use cluster::{ApiError, Retry};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::podunavailablebudget::terms::Operation;
use kinds::sidecarset::account::eviction::Evictions;
use kinds::sidecarset::account::{Case, Findings, PodRecord, Reason, Scope, Since, Uid, event_name};
use kinds::sidecarset::index::Entry;
use kinds::sidecarset::rollout::{Plan, RolloutSet};
use kube::Client;
use pod::observed::{ObservedPod, Part, Pool};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tracing::info;

use super::{Controller, NAME, SIDECAR_SETS};
use crate::metrics::Metrics;
use crate::workload::budgets::{Budgets, Spent};
use crate::workload::builder::{Builder, Keys, Next, QueueSettings, Reconciler};
use crate::workload::limiter::{CpuTime, Limiter};
use crate::workload::store::{Change, Kept, Store, key};
use crate::{Context, ReconcileError, now};
use reviewed::Reviewed;

mod reviewed;

#[cfg(test)]
mod tests;

/// One at a time: they share what is remembered.
const SETTINGS: QueueSettings = QueueSettings { name: "sidecarset-account-controller", workers: 1 };
/// How often the records are brought up to date and evictions decided; more often while Pods are evicted.
const ROUND: Duration = Duration::from_secs(1);
const EVICTING: Duration = Duration::from_millis(250);
/// Shortest time between two writes to a SidecarSet.
const WRITES: Duration = Duration::from_secs(5);
/// Longest rest of a SidecarSet whose Pods take long to count.
const LONGEST: Duration = Duration::from_secs(600);
/// A pass over the Pods is followed by a rest of this many times its length.
const REST_FACTOR: u32 = 20;
/// How long the first plan of a SidecarSet is waited for, which says why Pods are not updated.
const FIRST_PLAN: Duration = Duration::from_secs(30);
/// Events that may be written at once, and how long one more takes to be allowed.
const EVENTS: (u32, Duration) = (60, Duration::from_secs(1));

/// What there is to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// To bring the records of Pods up to date, which every other work does first.
    Records,
    /// To count the Pods of a SidecarSet, and publish what was found.
    Account(Box<str>),
    /// To evict missed Pods of a SidecarSet.
    Evictions(Box<str>),
}

/// What the plans of rollouts found.
pub(super) struct Rollouts {
    findings: Mutex<HashMap<Box<str>, Findings>>,
    accounts: UnboundedSender<Key>,
}

impl Rollouts {
    /// What is found anew is sent to `accounts`.
    pub(super) fn new(accounts: UnboundedSender<Key>) -> Self {
        Self { findings: Mutex::default(), accounts }
    }

    /// Notes what a plan says.
    pub(super) fn planned(&self, set: &RolloutSet, plan: &Plan, pods: &[Arc<ObservedPod>]) {
        let findings = Findings::of_rollout(set, plan, pods.iter().map(|pod| &**pod));
        if self.findings().insert(set.name.clone(), findings.clone()) != Some(findings) {
            self.wake(Key::Account(set.name.clone()));
        }
    }

    /// Forgets a SidecarSet that is gone.
    pub(super) fn forget(&self, set: &str) {
        self.findings().remove(set);
    }

    fn wake(&self, key: Key) {
        // Without a receiver the controllers are being stopped.
        drop(self.accounts.send(key));
    }

    // Held for single operations only, never over an await.
    fn findings(&self) -> MutexGuard<'_, HashMap<Box<str>, Findings>> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the accounts.
struct Accounts {
    controller: Arc<Controller>,
    metrics: Arc<Metrics>,
    /// For evictions.
    client: Client,
    recorder: Recorder,
    reviewed: Store<Reviewed>,
    limiter: Limiter<Box<str>>,
    began: Instant,
    memory: tokio::sync::Mutex<Memory>,
}

/// What is remembered of all SidecarSets.
struct Memory {
    scope: Scope,
    /// The world of the last pass; held weakly, so that it can go.
    world: Weak<World>,
    next_pass: Instant,
    sets: HashMap<Box<str>, OfSet>,
    evictions: Evictions,
    events: Allowance,
}

/// What is remembered of a SidecarSet.
#[derive(Default)]
struct OfSet {
    /// Since when it selects its Pods, and its UID.
    since: Option<(Box<str>, Since)>,
    missed: usize,
    /// Missed Pods of which an Event was written.
    recorded: BTreeSet<Uid>,
    /// Why missed Pods are not evicted.
    findings: Findings,
}

/// Keeps the accounts of the SidecarSets of `controller`. Never returns.
pub(super) async fn run(context: Context, controller: Arc<Controller>, keys: Keys<Key>) {
    let (client, of_sets) = (context.client.clone(), controller.sets.subscribe());
    controller.rollouts.wake(Key::Records);
    Builder::new(&context, SETTINGS, "Reconcile", |_| Accounts::new(&context, controller))
        .keys(keys)
        .woken_by(of_sets, |_, change| of_set(change))
        .beside(|all, _| async move { reviewed::keep_current(&client, &all.reviewed).await })
        .after(|all| async move {
            let known = &all.controller;
            tokio::join!(known.pods.synced(), known.sets.synced(), all.reviewed.synced());
        })
        .run()
        .await;
}

/// A SidecarSet that is new or gone; of others it may have changed whether Pods are to be evicted.
fn of_set(change: &Change<RolloutSet>) -> Option<(Key, Duration)> {
    let name = change.states().next()?.name.clone();
    let stays = change.old.is_some() && change.new.as_ref().is_some_and(|set| !set.deleting);
    Some((if stays { Key::Evictions(name) } else { Key::Account(name) }, Duration::ZERO))
}

impl Drop for Accounts {
    fn drop(&mut self) {
        self.metrics.forget_sidecar_sets();
    }
}

impl Reconciler for Accounts {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let index = &self.controller.index;
        if ![Watched::SidecarSet, Watched::Namespace].into_iter().all(|kind| index.can_answer(kind)) {
            return Ok(Next::After(ROUND));
        }
        let (world, memory) = (index.world(), &mut *self.memory.lock().await);
        self.follow(memory, &world);
        let (Key::Account(name) | Key::Evictions(name)) = key else { return Ok(Next::After(ROUND)) };
        let Some(set) = self.set(name) else {
            self.limiter.forget(name);
            self.metrics.forget_sidecar_set(name);
            memory.sets.remove(name);
            memory.evictions.forget(name);
            return Ok(Next::Done);
        };
        let entry = world.sidecar_sets().get(name);
        let Some(entry) = entry.filter(|entry| *entry.object.metadata.uid == *set.uid) else {
            // One of the two watches is behind.
            return Ok(Next::After(ROUND));
        };
        if matches!(key, Key::Account(_)) {
            return self.account(memory, (&set, entry, &world)).await;
        }
        Ok(self.evict(memory, (&set, entry, &world)).await)
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let (Key::Account(name) | Key::Evictions(name)) = key else { return None };
        self.set(name).map(|set| set.reference(&SIDECAR_SETS))
    }

    fn panicked(&self, key: &Key) {
        if let Key::Account(name) = key {
            self.limiter.ended(name, false);
        }
    }
}

/// A SidecarSet as both watches know it, and what admission knows.
type Known<'a> = (&'a RolloutSet, &'a Entry, &'a World);

impl Accounts {
    fn new(context: &Context, controller: Arc<Controller>) -> Self {
        let began = Instant::now();
        let memory = Memory {
            scope: Scope::of_installation(&context.settings.install_namespace),
            world: Weak::new(),
            next_pass: began,
            sets: HashMap::new(),
            evictions: Evictions::new(now().now),
            events: Allowance::new(EVENTS.0, EVENTS.1),
        };
        Self {
            controller,
            metrics: context.metrics.clone(),
            client: context.evicting.clone(),
            recorder: Recorder::new(context.client.clone(), NAME, None),
            reviewed: Store::default(),
            limiter: Limiter::resting((WRITES, LONGEST)),
            began,
            memory: tokio::sync::Mutex::new(memory),
        }
    }

    fn set(&self, name: &str) -> Option<Arc<RolloutSet>> {
        self.controller.sets.get(&key(name)).filter(|set| !set.deleting)
    }

    fn wake(&self, name: &str) {
        self.controller.rollouts.wake(Key::Account(name.into()));
    }

    /// Takes in what has changed since the last time: which Pods are reviewed, and which of them each SidecarSet selects.
    fn follow(&self, memory: &mut Memory, world: &Arc<World>) {
        let registered = self.reviewed.get(&reviewed::key());
        // Where nothing is registered that we wait for, what is known stays.
        if let Some(scope) = registered.and_then(|registered| registered.scope.clone())
            && scope != memory.scope
        {
            memory.scope = scope;
            world.sidecar_sets().iter().for_each(|entry| self.wake(entry.name()));
        }
        let now = Instant::now();
        let mut ledger = self.controller.pods.ledger();
        let mut touched = BTreeSet::new();
        if !std::ptr::eq(memory.world.as_ptr(), Arc::as_ptr(world)) && memory.next_pass <= now {
            memory.world = Arc::downgrade(world);
            touched = ledger.pass(world.inventory());
            memory.next_pass = now + ROUND.max(now.elapsed().saturating_mul(REST_FACTOR));
        }
        touched.append(&mut ledger.follow(world.inventory()));
        touched.iter().for_each(|name| self.wake(name));
    }

    /// Counts the Pods of a SidecarSet and says what came of it.
    async fn account(
        &self,
        memory: &mut Memory,
        (set, entry, world): Known<'_>,
    ) -> Result<Next, ReconcileError> {
        let name = &set.name;
        if let Some(rest) = self.limiter.rest(name) {
            return Ok(Next::After(rest));
        }
        let rollout = self.controller.rollouts.findings().get(name).cloned();
        if rollout.is_none() && self.began.elapsed() < FIRST_PLAN {
            return Ok(Next::After(ROUND));
        }
        let Memory { scope, sets, events, .. } = memory;
        let of_set = sets.entry(name.clone()).or_default();
        let time = CpuTime::begin();
        let case = self.case(scope, of_set, (set, entry, world));
        let (mut account, missed) = {
            let ledger = self.controller.pods.ledger();
            let account = ledger.account(&case);
            let missed = if account.missed == 0 { Vec::new() } else { missed(&case, ledger.members(name)) };
            (account, missed)
        };
        self.limiter.worked(name, time.taken());
        of_set.missed = account.missed;
        of_set.since = Some((set.uid.clone(), account.since()));
        self.metrics.count_sidecar_set(name, [account.matched, account.injected, account.missed]);
        account.findings.extend(&rollout.unwrap_or_default());
        account.findings.extend(&of_set.findings);
        self.controller.rollouts.wake(Key::Evictions(name.clone()));
        let published = self.publish(set, &account.annotation()).await;
        let recorded = self.record(set, missed, of_set, events).await;
        let done = published.and(recorded);
        self.limiter.ended(name, done.is_ok());
        done.map_err(ReconcileError::from)
    }

    /// The case of a SidecarSet as far as is known here.
    fn case<'a>(&self, scope: &'a Scope, of_set: &OfSet, (set, entry, world): Known<'a>) -> Case<'a> {
        let known = of_set.since.as_ref().filter(|(uid, _)| *uid == set.uid).map(|(_, since)| since);
        let registered = self.reviewed.get(&reviewed::key());
        let now = now().now;
        Case::new(entry, &set.subject, world.inventory(), scope, now)
            .remembering(known, &set.subject, now)
            .registered(registered.is_some_and(|registered| registered.scope.is_some()))
    }

    /// Writes the annotation, where it says something else.
    async fn publish(&self, set: &RolloutSet, annotation: &str) -> Result<(), ApiError> {
        if set.subject.says(annotation) {
            return Ok(());
        }
        let body = json!({"metadata": {"uid": set.uid, "annotations": {SIDECARSET_PODS: annotation}}});
        let path = SIDECAR_SETS.all().name(&set.name);
        let answer = write::patch(&self.controller.client, &path, PatchKind::Merge, body.to_string()).await;
        if let Some(Ok(after)) = unless_outdated(answer)?.map(|text| RolloutSet::read(&text)) {
            self.controller.sets.written(after);
        }
        Ok(())
    }

    /// Records an Event about each missed Pod that has none, as many as may be now; the others later.
    async fn record(
        &self,
        set: &RolloutSet,
        missed: Vec<(Uid, Missed)>,
        of_set: &mut OfSet,
        events: &mut Allowance,
    ) -> Result<Next, ApiError> {
        let present: BTreeSet<Uid> = missed.iter().map(|(uid, _)| *uid).collect();
        of_set.recorded.retain(|uid| present.contains(uid));
        for (uid, Missed { namespace, name }) in missed {
            if of_set.recorded.contains(&uid) {
                continue;
            }
            if !events.take() {
                return Ok(Next::After(WRITES));
            }
            let pod = about_in(&namespace, "v1", PODS.kind, &name, &uid.to_string());
            let note = format!("SidecarSet {}: {}", set.name, Reason::Missed);
            let event = event_name(&name, uid, &set.name);
            let what = ("SidecarMissed", note);
            self.recorder.record_once(event, (&pod, set.reference(&SIDECAR_SETS)), "Inject", what).await?;
            of_set.recorded.insert(uid);
        }
        Ok(Next::Done)
    }

    /// Evicts missed Pods of a SidecarSet, as many as may be away.
    async fn evict(&self, memory: &mut Memory, (set, entry, world): Known<'_>) -> Next {
        let name = &*set.name;
        let Memory { scope, sets, evictions, .. } = memory;
        let of_set = sets.entry(name.into()).or_default();
        let mut findings = Findings::default();
        // What was found is true until the next decision.
        let is_over = of_set.missed == 0 && of_set.findings == findings && !evictions.is_under_way(name);
        let limit = set.subject.evict.filter(|_| !is_over);
        if let Some(limit) = limit {
            let now = now().now;
            let pods = &self.controller.pods;
            let case = self.case(scope, of_set, (set, entry, world));
            let decision = evictions.decide(limit, &case, pods.ledger().members(name), now);
            let spent = Spent::default();
            for (uid, owner) in decision.evict {
                let Some(pod) = pods.ledger().get(uid).cloned() else { continue };
                let budgets = (&self.controller.budgets, &spent);
                match evict(&self.client, &case, set, (uid, &pod), budgets).await {
                    Ok(Eviction::Begun) => {
                        info!(sidecar_set = name, pod = pod.full_name(), "a missed Pod is evicted");
                        evictions.evicted(uid, owner);
                    }
                    Ok(Eviction::Needless) => {}
                    Ok(Eviction::Withheld(problem)) => evictions.refused(uid, &problem, now),
                    // It is deleted with its namespace.
                    Err(error) if error.retry() == Retry::Never => {}
                    // Without a clear answer it may have been evicted all the same: its place is waited for.
                    Err(error) => evictions.refused(uid, &error.to_string(), now),
                }
            }
            findings = decision.findings;
        } else {
            evictions.forget(name);
        }
        if of_set.findings != findings {
            of_set.findings = findings;
            self.wake(name);
        }
        match limit {
            Some(_) if evictions.is_under_way(name) => Next::After(EVICTING),
            Some(_) => Next::After(ROUND),
            None => Next::Done,
        }
    }
}

/// The name of a missed Pod.
struct Missed {
    namespace: Part<str>,
    name: Box<str>,
}

fn missed<'p>(case: &Case<'_>, pods: impl Iterator<Item = (Uid, &'p PodRecord)>) -> Vec<(Uid, Missed)> {
    let missed = pods.filter(|(_, pod)| !pod.is_leaving() && case.judge(pod).is_missed());
    let named =
        missed.map(|(uid, pod)| (uid, Missed { namespace: pod.namespace.clone(), name: pod.name.clone() }));
    named.collect()
}

/// What came of an eviction.
enum Eviction {
    Begun,
    /// The Pod has changed.
    Needless,
    /// Its budget has nothing left, or can't be read.
    Withheld(String),
}

/// Evicts a Pod, unless it is found to have changed, or its budget to have nothing left.
async fn evict(
    client: &Client,
    case: &Case<'_>,
    set: &RolloutSet,
    (uid, pod): (Uid, &PodRecord),
    (budgets, spent): (&Budgets<Box<str>>, &Spent),
) -> Result<Eviction, ApiError> {
    let path = PODS.namespaced(&pod.namespace).name(&pod.name);
    let Some(text) = write::get(client, &path).await? else { return Ok(Eviction::Needless) };
    let Ok(live) = ObservedPod::read(&text) else { return Ok(Eviction::Needless) };
    let record = PodRecord::of(&live, &mut Pool::default()).filter(|record| !record.is_leaving());
    let missed = record.is_some_and(|record| case.judge(&record).is_missed());
    if Uid::of(&live.metadata.uid) != uid || !missed {
        return Ok(Eviction::Needless);
    }
    match budgets.bear(&set.name, &live, Operation::Evict, spent).await {
        Ok(None) => {}
        Ok(Some(budget)) => return Ok(Eviction::Withheld(budget.to_string())),
        Err(error) => return Ok(Eviction::Withheld(error.message())),
    }
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": live.metadata.uid}},
    });
    let begun =
        unless_outdated(write::create(client, &path.subresource("eviction"), body.to_string()).await)?;
    Ok(if begun.is_some() { Eviction::Begun } else { Eviction::Needless })
}
