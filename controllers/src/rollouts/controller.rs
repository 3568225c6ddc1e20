//! One controller for each kind: plans, carries out, writes the status, reports, and plans again on what came of it until a
//! plan has nothing to do.

use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::Retry;
use cluster::event_sender::EventSender;
use cluster::watched::Key;
use k8s_openapi::api::core::v1::ObjectReference;
use pod::observed::ObservedPod;
use rollouts::object::{Object as _, ObjectName};
use rollouts::plan::Plan;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use values::event::Event;
use values::merge_patch::difference;

use super::carry_out::{Carried, Failed};
use super::held::Held;
use super::kinds::OWN_KINDS;
use super::known::{Known, Read, all_of};
use super::lists::News;
use super::reading::Reading;
use super::subject::Subject;
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use crate::workload::limiter::Limiter;
use crate::workload::store::{Change, Kept};
use crate::{Context, ReconcileError, now};

/// Plans in one reconcile.
const PLANS: usize = 10;
/// Changes of Pods, and of what a release reads beside its workload, come in bursts.
const BURST: Duration = Duration::from_millis(100);
/// The longest pause after a failure: while a release is held up traffic stays divided.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often a workload is looked at whose changes are not reported.
const UNREPORTED: Duration = Duration::from_secs(10);

/// A controller.
pub(super) struct Controller<S> {
    known: Arc<Known>,
    event_sender: EventSender,
    limiter: Limiter<Key>,
    memory: Mutex<Memory>,
    subject: PhantomData<fn() -> S>,
}

/// What is remembered beside objects; losing it costs extra work.
#[derive(Default)]
struct Memory {
    /// The version of each object that our own last write of its status has left.
    written: HashMap<Key, String>,
    /// The state in which an object is whose duration is measured, and since when.
    entered: HashMap<Key, ((i32, &'static str), Instant)>,
    /// An answer to a write for these objects did not come.
    unsure: HashSet<Key>,
}

/// What came of one plan.
enum Outcome {
    /// Something was written, or must be read anew.
    Again,
    /// Nothing is to be done until then.
    Rest(Next),
}

/// What came of a status.
enum StatusWrite {
    /// It is as it is to be.
    Same,
    /// It was written.
    Done,
    /// It is written later.
    Later(Duration),
    /// The object was in another state.
    Outdated,
}

/// Runs a controller, which is told from now on what lists show. The future never ends.
pub(super) fn run<S: Subject>(
    context: &Context,
    known: &Arc<Known>,
) -> impl Future<Output = ()> + Send + use<S> {
    let (context, known) = (context.clone(), known.clone());
    let news = known.lists.subscribe();
    async move {
        let settings = QueueSettings { name: S::CONTROLLER, workers: S::workers(&context.settings) };
        let pods = S::READS_PODS.then(|| known.stores.pods.subscribe());
        Builder::new(&context, settings, "Release", |event_sender| Controller::<S>::new(known, event_sender))
            .woken_by(news, Controller::of_news)
            .woken_by_each(pods.into_iter().collect(), Controller::of_pod)
            .after(|all| async move {
                for stored in OWN_KINDS.iter().filter_map(|kind| all.known.own(kind)) {
                    stored.synced().await;
                }
            })
            .run()
            .await;
    }
}

impl<S: Subject> Reconciler for Controller<S> {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let is_unsure = self.memory().unsure.contains(key);
        let mut reading = Reading::new(&self.known, (S::CONTROLLER, key.clone()), is_unsure);
        if is_unsure {
            reading.refresh(&Self::named(key)).await?;
        }
        for _ in 0..PLANS {
            let Some(held) = self.held(key).await? else {
                self.forget(key);
                return Ok(Next::Done);
            };
            let object =
                serde_json::from_str(held.json()).map_err(ReconcileError::of_object(S::KIND.kind))?;
            match self.plan(&held, &object, &mut reading).await {
                Ok(Outcome::Again) => {}
                Ok(Outcome::Rest(next)) => {
                    self.memory().unsure.remove(key);
                    return Ok(next);
                }
                Err(failed) => return Err(self.fail(&held, &object, &mut reading, failed).await),
            }
        }
        Ok(Next::After(OUTDATED_RETRY))
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let held = self.known.lists.find(&Self::named(key)).flatten()?;
        Some(held.reference(&S::KIND))
    }
}

impl<S: Subject> Controller<S> {
    pub(super) fn new(known: Arc<Known>, event_sender: EventSender) -> Self {
        let (limiter, memory) = (Limiter::default(), Mutex::default());
        Self { known, event_sender, limiter, memory, subject: PhantomData }
    }

    fn named((namespace, name): &Key) -> ObjectName {
        ObjectName::new(S::KIND.api_version, S::KIND.kind, namespace, name)
    }

    /// The object. A workload that has left the list of workloads is read, so that what holds it lets it go.
    async fn held(&self, key: &Key) -> Result<Option<Arc<Held>>, ReconcileError> {
        let name = Self::named(key);
        if let Some(found) = self.known.lists.find(&name) {
            return Ok(found);
        }
        Ok(match self.known.object(&name, true).await? {
            Read::Listed(object) | Read::Fetched(object) => object.map(|object| Arc::new(Held::new(&object))),
        })
    }

    async fn plan(
        &self,
        held: &Arc<Held>,
        object: &S::Object,
        reading: &mut Reading<'_>,
    ) -> Result<Outcome, Failed> {
        reading.follows = S::is_running(object);
        let is_reported = match S::workload(object) {
            Some(workload) => self.known.follow_workload(workload, held.namespace()).await?,
            None => true,
        };
        let moment = now();
        let plan = reading.plan(|view| S::plan(object, view, &self.known.settings, &moment)).await?;
        let Some(plan) = plan else {
            self.leave(&held.key());
            return Ok(Outcome::Rest(Next::Done));
        };
        let Plan { writes, status, events, again } = plan;
        if reading.carry_out(&writes).await? == Carried::Outdated {
            return Ok(Outcome::Again);
        }
        let is_urgent = !events.is_empty() || S::is_urgent(S::status(object), &status);
        let later = match self.write_status(held, object, &status, is_urgent, reading).await? {
            StatusWrite::Same if writes.is_empty() => None,
            StatusWrite::Later(wait) if writes.is_empty() => Some(wait),
            StatusWrite::Outdated => return Ok(Outcome::Again),
            StatusWrite::Same | StatusWrite::Done | StatusWrite::Later(_) => {
                events.into_iter().for_each(|event| self.record(held, event));
                return Ok(Outcome::Again);
            }
        };
        events.into_iter().for_each(|event| self.record(held, event));
        if !S::is_running(object) {
            self.leave(&held.key());
        }
        let unreported = (!is_reported).then_some(UNREPORTED);
        let running = S::AGAIN.filter(|_| reading.follows);
        let again = [again, later, unreported, running].into_iter().flatten().min();
        Ok(Outcome::Rest(again.map_or(Next::Done, Next::After)))
    }

    /// Writes what differs in the status. What only counts is written a moment later.
    async fn write_status(
        &self,
        held: &Arc<Held>,
        object: &S::Object,
        status: &S::Status,
        is_urgent: bool,
        reading: &mut Reading<'_>,
    ) -> Result<StatusWrite, ReconcileError> {
        let before = S::status(object);
        if before == status {
            return Ok(StatusWrite::Same);
        }
        let key = held.key();
        if let Some(wait) = self.limiter.pace(&key, is_urgent) {
            return Ok(StatusWrite::Later(wait));
        }
        // The first status has all that must be in one.
        let is_first = held.value().members("/status").is_none();
        let before = if is_first { json!({}) } else { members(before) };
        let metadata = json!({"uid": held.uid(), "resourceVersion": held.resource_version()});
        let patch = json!({"metadata": metadata, "status": difference(&before, &members(status))});
        let name = Self::named(&key);
        if !reading.patch(&name, "status", &patch).await? {
            return Ok(StatusWrite::Outdated);
        }
        let version = reading.version(&name, held.resource_version()).to_owned();
        self.measure(&key, S::status(object), status);
        self.memory().written.insert(key, version);
        Ok(StatusWrite::Done)
    }

    /// Measures what has ended with a status. A state whose beginning another replica has written is not.
    fn measure(&self, key: &Key, before: &S::Status, after: &S::Status) {
        let metrics = &self.known.metrics.releases;
        if let Some(result) = S::result(before, after) {
            metrics.ended.with_label_values(&[result]).inc();
        }
        let (was, is) = (S::state(before), S::state(after));
        let mut memory = self.memory();
        let entered = memory.entered.get(key).copied();
        if is == entered.map_or(was, |(state, _)| Some(state)) {
            return;
        }
        if let Some(((_, state), since)) = entered {
            metrics.steps.with_label_values(&[state]).observe(since.elapsed().as_secs_f64());
        }
        memory.entered.remove(key);
        memory.entered.extend(is.map(|state| (key.clone(), (state, Instant::now()))));
    }

    /// What was kept current for the object is needed no more.
    fn leave(&self, key: &Key) {
        let reader = (S::CONTROLLER, key.clone());
        self.known.lists.leave(&reader);
        self.known.owners.leave(&reader);
        self.known.stores.pods.leave(S::CONTROLLER, key);
    }

    fn forget(&self, key: &Key) {
        self.leave(key);
        self.limiter.forget(key);
        let mut memory = self.memory();
        memory.written.remove(key);
        memory.entered.remove(key);
        memory.unsure.remove(key);
    }

    /// Says why nothing could be done, and notes whether it may have been done all the same.
    async fn fail(
        &self,
        held: &Arc<Held>,
        object: &S::Object,
        reading: &mut Reading<'_>,
        failed: Failed,
    ) -> ReconcileError {
        let Failed { created, error } = failed;
        if error.may_have_acted() {
            self.memory().unsure.insert(held.key());
        }
        if error.retry() == Retry::Later || matches!(error, ReconcileError::Action(_)) {
            let problem = error.message();
            let event = created.and_then(|name| S::not_created(&name, &problem));
            event.into_iter().for_each(|event| self.record(held, event));
            let mut status = S::status(object).clone();
            S::explain(&mut status, problem);
            // The error that is reported is the one that is in the way.
            drop(self.write_status(held, object, &status, false, reading).await);
            return ReconcileError::Due { problem: error.to_string(), within: LONGEST_PAUSE };
        }
        error
    }

    /// The objects that a change in a list concerns: those that read the list, and those that the kind names. What our own
    /// write has left of an object is planned on already.
    pub(super) fn of_news(&self, news: &News) -> Vec<(Key, Duration)> {
        let readers = self.known.lists.readers(S::CONTROLLER, &news.list);
        let readers = readers.into_iter().map(|key| (key, BURST));
        let is_own = *news.list == all_of(&S::KIND);
        let concerned = S::concerned(&self.known, news).into_iter();
        let concerned = concerned.filter(|key| !is_own || !self.is_written(key, &news.change));
        readers.chain(concerned.map(|key| (key, Duration::ZERO))).collect()
    }

    fn is_written(&self, key: &Key, change: &Change<Held>) -> bool {
        let is_at =
            |version: &String| change.new.as_ref().is_some_and(|held| held.resource_version() == version);
        self.memory().written.get(key).is_some_and(is_at)
    }

    /// The objects that read the Pods of an owner of the changed one.
    pub(super) fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
        let keys = self.known.owners.readers(S::CONTROLLER, change);
        keys.into_iter().map(|key| (key, BURST)).collect()
    }

    fn record(&self, held: &Held, event: Event) {
        self.event_sender.record(held.reference(&S::KIND), event);
    }

    // Held for single operations only, never over an await.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The members of a status.
fn members(status: &impl Serialize) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}
