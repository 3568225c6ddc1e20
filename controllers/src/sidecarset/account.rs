//! The accounts of SidecarSets (docs/sidecarset-pods.md): annotation `kutter.io/sidecarset-pods`,
//! metrics, an Event for each missed Pod, and evictions where the user wants them. What they say is decided
//! in `kinds::sidecarset::account`.
//!
//! One task looks every second at what has changed since. It costs
//! - for a change of a Pod one search among the SidecarSets, for changes of SidecarSets and Namespaces one
//!   pass over the records of all Pods, at most a twentieth of the time;
//! - for a SidecarSet at most one write in five seconds, and none where nothing changed. The write changes no
//!   generation, so nobody plans anew;
//! - a bounded number of Events in each minute.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use admission::world::{Watched, World};
use api::annotations::SIDECARSET_PODS;
use cluster::events::Allowance;
use cluster::panics::{Panicked, contained};
use cluster::resource::{self, PODS};
use cluster::write::{self, PatchKind, unless_outdated};
use cluster::{ApiError, Retry};
use kinds::podunavailablebudget::terms::Operation;
use kinds::sidecarset::account::eviction::Evictions;
use kinds::sidecarset::account::{Case, Findings, PodRecord, Reason, Scope, Since, Uid, event_name};
use kinds::sidecarset::index::Entry;
use kinds::sidecarset::rollout::{Plan, RolloutSet};
use kube::Client;
use pod::observed::{ObservedPod, Pool};
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};
use values::backoff::doubled;
use values::json_patch::string;

use super::{Controller, NAME, SIDECAR_SETS, reference};
use crate::metrics::Metrics;
use crate::now;
use crate::workload::budgets::{Budgets, Spent};
use crate::workload::store::key;

pub(super) mod reviewed;

#[cfg(test)]
mod tests;

/// How often is looked what has changed; more often while Pods are evicted.
const ROUND: Duration = Duration::from_secs(1);
const EVICTING: Duration = Duration::from_millis(250);
/// Shortest time between two writes to a SidecarSet.
const WRITES: Duration = Duration::from_secs(5);
/// Pause before a write is tried again that failed: doubled each time, up to the longest. Short at first, for
/// a write comes by our own webhook, which the API server may not reach yet after an outage.
const FAILED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// SidecarSets that are looked at in one round.
const SETS: usize = 20;
/// A pass over the Pods, or the count of a SidecarSet, is followed by a rest of this many times its length.
const REST_FACTOR: u32 = 20;
/// How long the first plan of a SidecarSet is waited for, which tells why Pods are not updated.
const FIRST_PLAN: Duration = Duration::from_secs(30);
/// Events that may be written at once, and how long one more takes to be allowed.
const EVENTS: (u32, Duration) = (60, Duration::from_secs(1));

/// What the reconciles tell of the rollouts.
#[derive(Default)]
pub(super) struct Rollouts(Mutex<HashMap<Box<str>, (Findings, bool)>>);

impl Rollouts {
    /// Notes what a plan says.
    pub(super) fn planned(&self, set: &RolloutSet, plan: &Plan, pods: &[Arc<ObservedPod>]) {
        let findings = Findings::of_rollout(set, plan, pods.iter().map(|pod| &**pod));
        self.of(|rollouts| match rollouts.get_mut(&set.name) {
            Some((known, _)) if *known == findings => {}
            _ => drop(rollouts.insert(set.name.clone(), (findings, true))),
        });
    }

    /// Forgets a SidecarSet that is gone.
    pub(super) fn forget(&self, set: &str) {
        self.of(|rollouts| rollouts.remove(set));
    }

    fn get(&self, set: &str) -> Option<Findings> {
        self.of(|rollouts| rollouts.get(set).map(|(findings, _)| findings.clone()))
    }

    /// The SidecarSets whose findings are new since this was asked last.
    fn changed(&self) -> Vec<Box<str>> {
        self.of(|rollouts| {
            let changed = rollouts.iter_mut().filter(|(_, (_, changed))| *changed);
            let names = changed.map(|(name, (_, changed))| {
                *changed = false;
                name.clone()
            });
            names.collect()
        })
    }

    // Held for single operations only, never over an await.
    fn of<T>(&self, use_them: impl FnOnce(&mut HashMap<Box<str>, (Findings, bool)>) -> T) -> T {
        use_them(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keeps the accounts.
pub(super) struct Keeper<'c> {
    controller: &'c Controller,
    metrics: &'c Metrics,
    /// For evictions.
    client: Client,
    scope: Scope,
    /// The world that was looked at last; held weakly, so that it can go.
    world: Weak<World>,
    next_pass: Instant,
    began: Instant,
    /// SidecarSets to look at, and when.
    due: BTreeMap<Box<str>, Instant>,
    sets: HashMap<Box<str>, OfSet>,
    evictions: Evictions,
    events: Allowance,
}

/// What is remembered of a SidecarSet.
struct OfSet {
    /// Not looked at before this time.
    rests: Instant,
    /// Since when it selects its Pods, and its UID.
    since: Option<(Box<str>, Since)>,
    /// Writes that failed in a row.
    failures: u32,
    missed: usize,
    /// Missed Pods that were told of.
    told: BTreeSet<Uid>,
    /// Why missed Pods are not evicted.
    findings: Findings,
}

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        self.metrics.forget_sidecar_sets();
    }
}

impl<'c> Keeper<'c> {
    /// `client` asks once.
    pub(super) fn new(
        controller: &'c Controller,
        metrics: &'c Metrics,
        client: Client,
        install_namespace: &str,
    ) -> Self {
        let began = Instant::now();
        Self {
            controller,
            metrics,
            client,
            scope: Scope::of_installation(install_namespace),
            world: Weak::new(),
            next_pass: began,
            began,
            due: BTreeMap::new(),
            sets: HashMap::new(),
            evictions: Evictions::new(now().now),
            events: Allowance::new(EVENTS.0, EVENTS.1),
        }
    }

    /// Keeps them for ever.
    pub(super) async fn run(mut self) {
        loop {
            if let Err(Panicked { message, .. }) = contained(self.round()).await {
                self.metrics.queues.panicked(NAME);
                error!(panic = message, "the accounts of SidecarSets wait for the next round");
            }
            sleep(if self.evictions.is_under_way() { EVICTING } else { ROUND }).await;
        }
    }

    async fn round(&mut self) {
        let index = &self.controller.index;
        if ![Watched::SidecarSet, Watched::Namespace].into_iter().all(|kind| index.can_answer(kind)) {
            return;
        }
        let world = index.world();
        self.read_scope(&world);
        self.follow(&world);
        let now = Instant::now();
        let due = self.due.iter().filter(|(_, time)| **time <= now);
        let mut due: Vec<(Instant, Box<str>)> = due.map(|(name, time)| (*time, name.clone())).collect();
        // Who has waited longest comes first, or some would have no turn where many change all the time.
        due.sort_unstable();
        for (_, name) in due.into_iter().take(SETS) {
            self.due.remove(&name);
            let looked = contained(self.look_at(&world, &name)).await;
            self.set_aside(&name, looked);
        }
        let missing: Vec<Box<str>> =
            self.sets.iter().filter(|(_, set)| set.may_evict()).map(|(name, _)| name.clone()).collect();
        for name in missing {
            let tried = contained(self.evict(&world, &name)).await;
            let has_evicted = tried.as_ref().is_ok_and(|has_evicted| *has_evicted);
            self.set_aside(&name, tried.map(drop));
            // The others have to see what goes, for they may select the same Pods.
            if has_evicted {
                break;
            }
        }
    }

    /// Leaves a SidecarSet alone for long where work on it panicked: the others go on.
    fn set_aside(&mut self, name: &str, outcome: Result<(), Panicked>) {
        let Err(Panicked { message, .. }) = outcome else { return };
        self.metrics.queues.panicked(NAME);
        self.sets.remove(name);
        self.due.insert(name.into(), Instant::now() + FAILED.1);
        if let Some(set) = self.controller.sets.get(&key(name)) {
            self.controller.teller.tell_panic(reference(&set), NAME, &message);
        }
    }

    /// Reads which Pods are reviewed. Where nothing is registered that we wait for, what is known stays.
    fn read_scope(&mut self, world: &World) {
        let registered = self.controller.reviewed.get(&reviewed::key());
        let Some(scope) = registered.as_ref().and_then(|registered| registered.scope.as_ref()) else {
            return;
        };
        if *scope != self.scope {
            self.scope = scope.clone();
            for entry in world.sidecar_sets().iter() {
                self.wake(entry.name());
            }
        }
    }

    /// Takes in what has changed since the last round.
    fn follow(&mut self, world: &Arc<World>) {
        let now = Instant::now();
        let mut ledger = self.controller.pods.ledger();
        let mut touched = BTreeSet::new();
        if !std::ptr::eq(self.world.as_ptr(), Arc::as_ptr(world)) && self.next_pass <= now {
            self.world = Arc::downgrade(world);
            touched = ledger.pass(world.inventory());
            self.next_pass = now + ROUND.max(now.elapsed().saturating_mul(REST_FACTOR));
        }
        touched.append(&mut ledger.follow(world.inventory()));
        drop(ledger);
        touched.iter().for_each(|name| self.wake(name));
        self.controller.rollouts.changed().iter().for_each(|name| self.wake(name));
        let gone = self.sets.keys().filter(|name| world.sidecar_sets().get(name).is_none()).cloned();
        for name in gone.collect::<Vec<_>>() {
            self.sets.remove(&name);
            self.evictions.forget(&name);
            self.metrics.forget_sidecar_set(&name);
        }
    }

    /// Looks at a SidecarSet as soon as it has rested.
    fn wake(&mut self, name: &str) {
        let due = self.sets.get(name).map_or_else(Instant::now, |set| set.rests);
        self.due.entry(name.into()).or_insert(due);
    }

    /// The SidecarSet as both watches know it; `None` where one of them is behind, or it goes.
    fn present(&self, world: &World, name: &str) -> Option<Arc<RolloutSet>> {
        let set = self.controller.sets.get(&key(name)).filter(|set| !set.deleting)?;
        let known = world.sidecar_sets().get(name)?;
        (*known.object.metadata.uid == *set.uid).then_some(set)
    }

    /// Counts the Pods of a SidecarSet and tells what came of it.
    async fn look_at(&mut self, world: &World, name: &str) {
        let (Some(set), Some(entry)) = (self.present(world, name), world.sidecar_sets().get(name)) else {
            if self.controller.sets.get(&key(name)).is_some_and(|set| !set.deleting) {
                self.due.insert(name.into(), Instant::now() + ROUND);
            }
            return;
        };
        let rollout = self.controller.rollouts.get(name);
        if rollout.is_none() && self.began.elapsed() < FIRST_PLAN {
            self.due.insert(name.into(), Instant::now() + ROUND);
            return;
        }
        let began = Instant::now();
        let case = self.case(&self.scope, entry, &set, world);
        let (mut account, missed) = {
            let ledger = self.controller.pods.ledger();
            let account = ledger.account(&case);
            let missed = if account.missed == 0 { Vec::new() } else { missed(&case, ledger.members(name)) };
            (account, missed)
        };
        let rest = WRITES.max(began.elapsed().saturating_mul(REST_FACTOR));
        let of_set = self.sets.entry(name.into()).or_insert_with(OfSet::new);
        (of_set.missed, of_set.rests) = (account.missed, began + rest);
        of_set.since = Some((set.uid.clone(), account.since()));
        self.metrics.count_sidecar_set(name, [account.matched, account.injected, account.missed]);
        account.findings.extend(&rollout.unwrap_or_default());
        account.findings.extend(&of_set.findings);
        let problem = self.publish(&set, &account.annotation()).await.err();
        if let Some(of_set) = self.sets.get_mut(name) {
            match problem {
                None => of_set.failures = 0,
                Some(error) => {
                    if of_set.failures == 0 {
                        warn!(sidecar_set = name, %error, "the account of a SidecarSet can't be written");
                    }
                    let pause = doubled(FAILED, of_set.failures);
                    of_set.failures = of_set.failures.saturating_add(1);
                    self.due.insert(name.into(), Instant::now() + pause);
                }
            }
        }
        self.tell(&set, missed).await;
    }

    /// The case of a SidecarSet as far as is known here.
    fn case<'a>(&self, scope: &'a Scope, entry: &'a Entry, set: &RolloutSet, world: &'a World) -> Case<'a> {
        let known = self.sets.get(&set.name).and_then(|of_set| of_set.since.as_ref());
        let known = known.filter(|(uid, _)| *uid == set.uid).map(|(_, since)| since);
        let registered = self.controller.reviewed.get(&reviewed::key());
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
        let body = format!(
            r#"{{"metadata":{{"uid":{},"annotations":{{"{SIDECARSET_PODS}":{}}}}}}}"#,
            string(&set.uid),
            string(annotation)
        );
        let path = SIDECAR_SETS.all().name(&set.name);
        let answer = write::patch(&self.controller.client, &path, PatchKind::Merge, body).await;
        if let Some(Ok(after)) = unless_outdated(answer)?.map(|text| RolloutSet::read(&text)) {
            self.controller.sets.written(after);
        }
        Ok(())
    }

    /// Tells of missed Pods that were not told of, as many as may be now.
    async fn tell(&mut self, set: &RolloutSet, missed: Vec<(Uid, Missed)>) {
        let Some(of_set) = self.sets.get_mut(&set.name) else { return };
        let present: BTreeSet<Uid> = missed.iter().map(|(uid, _)| *uid).collect();
        of_set.told.retain(|uid| present.contains(uid));
        for (uid, pod) in missed {
            if of_set.told.contains(&uid) {
                continue;
            }
            if !self.events.take() {
                // The others when more may be told.
                self.due.entry(set.name.clone()).or_insert_with(|| Instant::now() + WRITES);
                return;
            }
            let namespace = &pod.namespace;
            let events = resource::EVENTS.namespaced(namespace);
            match write::create(&self.controller.client, &events, event(set, uid, &pod)).await {
                Ok(_) => {}
                // It was told before, or nobody will read it.
                Err(error) if error.is_conflict() || error.retry() == Retry::Never => {}
                Err(error) => {
                    warn!(namespace = &**namespace, pod = &*pod.name, %error, "an Event was not written");
                    self.due.entry(set.name.clone()).or_insert_with(|| Instant::now() + FAILED.1);
                    return;
                }
            }
            of_set.told.insert(uid);
        }
    }

    /// Evicts missed Pods of a SidecarSet, as many as may be away. True where one was evicted.
    async fn evict(&mut self, world: &World, name: &str) -> bool {
        let (Some(set), Some(entry)) = (self.present(world, name), world.sidecar_sets().get(name)) else {
            return false;
        };
        let Some(limit) = set.subject.evict else {
            self.evictions.forget(name);
            self.found(name, Findings::default());
            return false;
        };
        let now = now().now;
        let (pods, scope) = (self.controller.pods.clone(), self.scope.clone());
        let case = self.case(&scope, entry, &set, world);
        let decision = self.evictions.decide(limit, &case, pods.ledger().members(name), now);
        let (spent, mut has_evicted) = (Spent::default(), false);
        for (uid, owner) in decision.evict {
            let Some(pod) = pods.ledger().get(uid).cloned() else { continue };
            let budgets = (&self.controller.budgets, &spent);
            match evict(&self.client, &case, &set, (uid, &pod), budgets).await {
                Ok(Eviction::Begun) => {
                    info!(sidecar_set = name, pod = pod.full_name(), "a missed Pod is evicted");
                    self.evictions.evicted(uid, owner);
                    has_evicted = true;
                }
                Ok(Eviction::Needless) => {}
                Ok(Eviction::Withheld(problem)) => self.evictions.refused(uid, &problem, now),
                // It goes with its namespace.
                Err(error) if error.retry() == Retry::Never => {}
                // Without a clear answer it may have been evicted all the same: its place is waited for.
                Err(error) => self.evictions.refused(uid, &error.to_string(), now),
            }
        }
        self.found(name, decision.findings);
        has_evicted
    }

    /// Takes in why missed Pods are not evicted.
    fn found(&mut self, name: &str, findings: Findings) {
        let Some(of_set) = self.sets.get_mut(name).filter(|of_set| of_set.findings != findings) else {
            return;
        };
        of_set.findings = findings;
        self.wake(name);
    }
}

impl OfSet {
    fn new() -> Self {
        Self {
            rests: Instant::now(),
            since: None,
            failures: 0,
            missed: 0,
            told: BTreeSet::new(),
            findings: Findings::default(),
        }
    }

    fn may_evict(&self) -> bool {
        // What was found is true until the next decision.
        self.missed > 0 || self.findings != Findings::default()
    }
}

/// The name of a missed Pod.
struct Missed {
    namespace: Arc<str>,
    name: Box<str>,
}

fn missed<'p>(case: &Case<'_>, pods: impl Iterator<Item = (Uid, &'p PodRecord)>) -> Vec<(Uid, Missed)> {
    let missed = pods.filter(|(_, pod)| !pod.is_leaving() && case.judge(pod).is_missed());
    let named =
        missed.map(|(uid, pod)| (uid, Missed { namespace: pod.namespace.clone(), name: pod.name.clone() }));
    named.collect()
}

/// The Event about a missed Pod.
fn event(set: &RolloutSet, uid: Uid, pod: &Missed) -> String {
    let time = now().now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
    let note = format!("SidecarSet {}: {}", set.name, Reason::Missed);
    let namespace = string(&pod.namespace);
    format!(
        r#"{{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{{"name":{},"namespace":{namespace}}},
"eventTime":"{time}","type":"Warning","reason":"SidecarMissed","action":"Inject","note":{},
"reportingController":"{NAME}","reportingInstance":"{NAME}",
"regarding":{{"apiVersion":"v1","kind":"Pod","namespace":{namespace},"name":{},"uid":"{uid}"}},
"related":{{"apiVersion":"{}","kind":"{}","name":{},"uid":{}}}}}"#,
        string(&event_name(&pod.name, uid, &set.name)),
        string(&note),
        string(&pod.name),
        api::sidecarset::API_VERSION,
        api::sidecarset::KIND,
        string(&set.name),
        string(&set.uid),
    )
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
    let body = format!(
        r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":{},"namespace":{}}},"deleteOptions":{{"preconditions":{{"uid":{}}}}}}}"#,
        string(&pod.name),
        string(&pod.namespace),
        string(&live.metadata.uid)
    );
    let begun = unless_outdated(write::create(client, &path.subresource("eviction"), body).await)?;
    Ok(if begun.is_some() { Eviction::Begun } else { Eviction::Needless })
}
