//! Controller `cloneset-controller`: keeps the Pods of CloneSets as they are wanted (spec 31).
//!
//! ```text
//!   CloneSets, Pods, claims, ControllerRevisions --(old, new)--> keys --> queue
//!   reconcile: snapshot --> planner::kinds::cloneset::plan --> act --> status, Events
//!                 ^---------- what the writes returned ---'
//! ```
//!
//! What to do is decided by `planner::kinds::cloneset`; here it is gathered and carried out. After a plan a
//! CloneSet rests for a multiple of the time that the plan took, so that planning takes a small, constant
//! share of the time however many Pods there are and however often they change.
//!
//! What the API server refuses is tried again after pauses that grow; everything else goes on meanwhile. Only
//! where no plan can be made at all the CloneSet as a whole rests longer and longer.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::features::Feature;
use api::kinds::cloneset::{API_VERSION, CloneSet, KIND, PLURAL, Status};
use cluster::events::{Recorder, Severity};
use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use planner::pod::observed::ObservedPod;
use planner::text::server_version::ServerVersion;
use planner::workload::action::Action;
use planner::workload::children::{Child, Claim};
use planner::workload::event::Event;
use planner::workload::kind::Workload;
use planner::workload::plan::{Outcome, Plan};
use planner::workload::revision::StoredRevision;
use planner::workload::seen::Seen;
use planner::workload::snapshot::{Environment, Snapshot};
use planner::workload::status::StatusPlan;
use planner::workload::trigger;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::controller_revisions::Group;
use crate::course::{Courses, CpuTime};
use crate::panics::Containment;
use crate::pods::Pods;
use crate::queue::{self, Next};
use crate::store::{Change, Kept};
use crate::{Context, ReconcileError, now, triggers};

mod act;
mod memory;
mod nodes;
mod pull_jobs;
mod reading;
mod rehearsal;
mod revisions;
mod stores;
#[cfg(test)]
mod tests;

use memory::{Memory, STATUS};
use nodes::{Labels, Nodes};
use stores::Stores;

const NAME: &str = "cloneset-controller";
/// Pause before a CloneSet is looked at again of which something had changed when it was to be written to.
const SOON: Duration = Duration::from_secs(1);
/// A CloneSet is looked at again after this time even if no event tells of it.
const SAFETY_NET: Duration = Duration::from_secs(600);
/// Events that may wait to be written. More are dropped: they tell of what can be seen.
const EVENTS: usize = 4096;
/// Longest message of an Event, in bytes.
const MESSAGE: usize = 1024;

/// Reconciles CloneSets.
struct Controller {
    client: Client,
    context: Context,
    environment: Environment,
    pods: Arc<Pods>,
    stores: Stores,
    nodes: Nodes,
    courses: Courses,
    memories: Mutex<HashMap<Key, Memory>>,
    events: mpsc::Sender<(ObjectReference, Event)>,
}

/// One reconcile.
struct Work<'a> {
    set: &'a CloneSet,
    pods: HashMap<&'a str, &'a Arc<ObservedPod>>,
}

/// What became of the status.
enum Stored {
    Yes,
    /// The CloneSet is gone, or in another state by now.
    Outdated,
    /// It is not tried now.
    Held,
    Refused(String),
}

impl Stored {
    fn refusal(self) -> Option<String> {
        match self {
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl<'a> Work<'a> {
    fn new(set: &'a CloneSet, pods: &'a [Arc<ObservedPod>]) -> Self {
        Self { set, pods: pods.iter().map(|pod| (&*pod.metadata.name, pod)).collect() }
    }

    /// The Pod, if the snapshot has it.
    fn pod(&self, seen: &Seen) -> Option<&'a ObservedPod> {
        self.pods.get(seen.name.as_str()).filter(|pod| *pod.metadata.uid == *seen.uid).map(|pod| &***pod)
    }
}

/// Reconciles CloneSets. Ends never.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let client = context.client.clone();
    let (events, told) = mpsc::channel(EVENTS);
    let environment = environment(&context).await;
    let controller = Arc::new(Controller::new(context, environment, pods, events));
    let caches = &controller.context.metrics.caches;
    caches.count(NAME, KIND, &controller, |all| all.stores.sets.len());
    caches.count(NAME, "PersistentVolumeClaim", &controller, |all| all.stores.claims.len());
    caches.count(NAME, "ControllerRevision", &controller, |all| all.stores.revisions.0.len());
    let (sender, keys) = mpsc::unbounded_channel();
    let workers = controller.context.settings.cloneset_workers;
    let work = async {
        tokio::join!(controller.pods.synced(), controller.stores.synced());
        let reconciled = controller.clone();
        let settings = queue::Settings { name: NAME, workers };
        let containment =
            Arc::new(Containment::new(NAME, controller.context.metrics.clone(), client.clone()));
        queue::run(settings, &controller.context.metrics, keys, move |key: Key| {
            let (controller, containment) = (reconciled.clone(), containment.clone());
            async move {
                let object = || controller.stores.sets.get(&key).map(|set| reference(&set));
                let outcome = containment.contain(object, controller.reconcile(&key)).await;
                if matches!(outcome, Err(ReconcileError::Panicked(_))) {
                    controller.courses.failed(&course(&key));
                }
                outcome
            }
        })
        .await;
    };
    tokio::join!(
        controller.stores.follow(&client),
        triggers::forward(controller.stores.sets.subscribe(), sender.clone(), |change| controller
            .of_set(change)),
        triggers::forward(controller.pods.subscribe(), sender.clone(), of_pod),
        triggers::forward(controller.stores.claims.subscribe(), sender.clone(), of_claim),
        triggers::forward(controller.stores.revisions.0.subscribe(), sender, of_revision),
        tell(Recorder::new(client.clone(), NAME, None), told),
        work,
    );
}

/// What the API server can do. It is asked until it answers: plans differ by it.
async fn environment(context: &Context) -> Environment {
    let gates = &context.settings.gates;
    let wanted = [Feature::KruiseDaemon, Feature::PreDownloadImageForInPlaceUpdate];
    let pre_download = wanted.into_iter().all(|gate| gates.enabled(gate));
    loop {
        let version = context.client.apiserver_version().await;
        let path = format!("/apis/{}/v1beta1/imagepulljobs?limit=1", api::APPS_GROUP);
        let jobs = if pre_download { write::get(&context.client, &path).await } else { Ok(None) };
        match (version, jobs) {
            (Ok(version), Ok(jobs)) => {
                return Environment {
                    exclude_preparing_delete: context.settings.cloneset_scaling_exclude_preparing_delete,
                    server: ServerVersion::parse(&version.git_version),
                    pull_jobs: jobs.is_some(),
                };
            }
            (Err(error), _) | (_, Err(error)) => {
                debug!(%error, "the API server does not say what it can do");
                tokio::time::sleep(SOON).await;
            }
        }
    }
}

/// Writes Events, one after another, beside the work that they tell of.
async fn tell(recorder: Recorder, mut events: mpsc::Receiver<(ObjectReference, Event)>) {
    while let Some((object, event)) = events.recv().await {
        let severity = if event.warning { Severity::Warning } else { Severity::Normal };
        recorder.record(&object, severity, "Reconcile", event.reason, event.message).await;
    }
}

fn at_once(key: Key) -> (Key, Duration) {
    (key, Duration::ZERO)
}

fn of_set(change: &Change<CloneSet>) -> Option<(Key, Duration)> {
    trigger::of_workload(change.old.as_deref(), change.new.as_deref()).map(at_once)
}

fn of_pod(change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
    trigger::of_pod::<CloneSet>(change.old.as_deref(), change.new.as_deref())
        .into_iter()
        .map(at_once)
        .collect()
}

fn of_claim(change: &Change<Claim>) -> Vec<(Key, Duration)> {
    trigger::of_claim::<CloneSet>(change.old.as_deref(), change.new.as_deref())
        .into_iter()
        .map(at_once)
        .collect()
}

fn of_revision(change: &Change<StoredRevision>) -> Vec<(Key, Duration)> {
    trigger::of_revision::<CloneSet>(change.old.as_deref(), change.new.as_deref())
        .into_iter()
        .map(at_once)
        .collect()
}

fn course(key: &Key) -> String {
    format!("{}/{}", key.0, key.1)
}

impl Controller {
    fn new(
        context: Context,
        environment: Environment,
        pods: Arc<Pods>,
        events: mpsc::Sender<(ObjectReference, Event)>,
    ) -> Self {
        Self {
            environment,
            stores: Stores::default(),
            nodes: Nodes::default(),
            courses: Courses::default(),
            memories: Mutex::default(),
            pods,
            events,
            client: context.client.clone(),
            context,
        }
    }

    /// [`of_set`]; what a CloneSet says anew is tried at once, whatever was refused before.
    fn of_set(&self, change: &Change<CloneSet>) -> Option<(Key, Duration)> {
        let said = |set: &Arc<CloneSet>| (set.metadata.uid.clone(), set.metadata.generation);
        if let Some(set) = &change.new
            && change.old.as_ref().map(said) != Some(said(set))
        {
            self.courses.wake(&course(&set.key()));
            self.memory_of(set, |memory| memory.pauses.clear());
        }
        of_set(change)
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let course = course(key);
        let Some(set) = self.stores.sets.get(key) else {
            self.forget(key, &course);
            return Ok(Next::Done);
        };
        if let Some(rest) = self.courses.rest(&course) {
            return Ok(Next::After(rest));
        }
        let next = self.advance(&set, &course).await;
        match &next {
            // What was refused has pauses of its own.
            Ok(_) | Err(ReconcileError::Action(_)) => self.courses.succeeded(&course),
            Err(_) => self.courses.failed(&course),
        }
        next
    }

    async fn advance(&self, set: &CloneSet, course: &str) -> Result<Next, ReconcileError> {
        self.look_again(set).await?;
        let pods = self.pods.owned_by(&set.metadata.uid);
        let nodes = self.nodes(set, pods.len()).await?;
        let children = self.pull_jobs(set).await?;
        let time = CpuTime::begin();
        let mut planned = self.plan(set, &pods, &children, &nodes);
        let mut took = time.taken();
        if let Some(step) = planned.revision.take() {
            let collisions = self.revisions(set).write(step).await?;
            if collisions.is_some() {
                self.memory_of(set, |memory| memory.collision_count = collisions);
            }
            let time = CpuTime::begin();
            planned = self.plan(set, &pods, &children, &nodes);
            took += time.taken();
            if planned.revision.is_some() {
                return Err(ReconcileError::Unsettled);
            }
        }
        self.courses.plan_took(course, took);
        let work = Work::new(set, &pods);
        self.carry_out(&work, planned).await
    }

    fn plan(
        &self,
        set: &CloneSet,
        pods: &[Arc<ObservedPod>],
        children: &[Arc<Child>],
        nodes: &Labels,
    ) -> Plan<Status> {
        let uid = &set.metadata.uid;
        let claims = self.stores.claims.group(&uid.as_str().into());
        let stored = &self.stores.revisions.0;
        let mut revisions = stored.group(&Group::Owner(uid.as_str().into()));
        revisions.extend(stored.group(&Group::Orphans(set.metadata.namespace.as_str().into())));
        let (refused, held, collision_count) = self.memory_of(set, |memory| {
            memory.keep_refused(&claims);
            (memory.refused.clone(), memory.pauses.held_updates(), memory.collision_count)
        });
        let snapshot = Snapshot {
            workload: set,
            pods,
            claims: &claims,
            children,
            revisions: &revisions,
            nodes,
            refused: &refused,
            held: &held,
            collision_count,
            gates: &self.context.settings.gates,
            environment: self.environment,
        };
        CloneSet::plan(&snapshot, now())
    }

    /// Steps 2 to 8 of [`Plan`].
    async fn carry_out(&self, work: &Work<'_>, plan: Plan<Status>) -> Result<Next, ReconcileError> {
        let set = work.set;
        for event in plan.events {
            self.tell(set, event);
        }
        let planned = plan.release.iter().chain(&plan.scale).chain(&plan.update);
        let takes_room = |pod: &&&Arc<ObservedPod>| !matches!(&*pod.status.phase, "Succeeded" | "Failed");
        let present = work.pods.values().filter(takes_room).count();
        self.memory(work, |memory| memory.pauses.review(planned, present));
        let released = self.act(work, &plan.release).await;
        let scaled = self.act(work, &plan.scale).await;
        let updates: Vec<&Action> = plan.update.iter().filter(|action| scaled.lets(action)).collect();
        let skipped = updates.len() < plan.update.len();
        let mut updated = self.act(work, updates).await;
        if updated.failure.is_none() {
            // Updates that are held up are not in the plan; the trouble is the same.
            let held = self.memory(work, |memory| memory.pauses.held_updates());
            updated.failure = held.into_values().next().map(|refusal| refusal.message.into());
        }
        let scale = scaled.outcome(plan.problems.scale);
        let update = match updated.outcome(plan.problems.update) {
            Outcome::Succeeded if skipped => Outcome::Skipped,
            outcome => outcome,
        };
        let stored = match plan.status {
            Some(status) => self.write_status(work, &status, &scale, &update).await,
            None => Stored::Yes,
        };
        self.pre_download(work, &plan.pre_download).await;
        if let Some(patch) = plan.owner_patch
            && let Err(error) = self.patch_set(set, "", PatchKind::Json, patch).await
        {
            warn!(name = set.metadata.name, %error, "podsToDelete keeps names of Pods that are gone");
        }
        for revision in &plan.obsolete_revisions {
            if let Err(error) = self.revisions(set).delete(revision).await {
                warn!(revision = revision.name, %error, "an obsolete ControllerRevision stays");
            }
        }
        let mut problems = [scale, update].into_iter().filter_map(|outcome| match outcome {
            Outcome::Failed(message) => Some(message),
            _ => None,
        });
        let tried =
            released.failed || scaled.failed || updated.failed || matches!(stored, Stored::Refused(_));
        let outdated = released.outdated || scaled.outdated || updated.outdated;
        let again = skipped || matches!(stored, Stored::Outdated);
        let problem = problems.next().or(released.failure).or(stored.refusal());
        let (news, pause) =
            self.memory(work, |memory| (memory.is_news(problem.as_deref()) || tried, memory.pauses.next()));
        match problem {
            Some(problem) if news => Err(ReconcileError::Action(problem)),
            _ if outdated || again => Ok(Next::After(SOON)),
            _ => Ok(Next::After(plan.requeue_after.into_iter().chain(pause).fold(SAFETY_NET, Duration::min))),
        }
    }

    async fn write_status(
        &self,
        work: &Work<'_>,
        status: &StatusPlan<Status>,
        scale: &Outcome,
        update: &Outcome,
    ) -> Stored {
        let Some(patch) = status.patch(scale, update) else { return Stored::Yes };
        if self.memory(work, |memory| memory.pauses.held(STATUS)).is_some() {
            return Stored::Held;
        }
        match self.patch_set(work.set, "/status", PatchKind::Merge, patch).await {
            Ok(written) => {
                self.memory(work, |memory| memory.pauses.succeeded(STATUS));
                if written { Stored::Yes } else { Stored::Outdated }
            }
            Err(error) => {
                let error = error.to_string();
                self.memory(work, |memory| memory.pauses.failed(STATUS, &error));
                Stored::Refused(error)
            }
        }
    }

    /// False if the CloneSet is gone, or in another state by now.
    async fn patch_set(
        &self,
        set: &CloneSet,
        part: &str,
        kind: PatchKind,
        patch: String,
    ) -> Result<bool, ReconcileError> {
        let metadata = &set.metadata;
        let path =
            format!("/apis/{API_VERSION}/namespaces/{}/{PLURAL}/{}{part}", metadata.namespace, metadata.name);
        match write::patch(&self.client, &path, kind, patch).await {
            Ok(text) => self.stores.sets.written(serde_json::from_str(&text)?),
            Err(error) if cluster::client::is_outdated(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Labels of Nodes, where Pods may have to be chosen by them.
    async fn nodes(&self, set: &CloneSet, pods: usize) -> Result<Labels, ReconcileError> {
        if set.reads_nodes(pods) {
            return self.nodes.labels(&self.client).await;
        }
        Ok(Arc::new(BTreeMap::new()))
    }

    fn memory<T>(&self, work: &Work<'_>, use_it: impl FnOnce(&mut Memory) -> T) -> T {
        self.memory_of(work.set, use_it)
    }

    // Held for single operations only, never over an await.
    fn memory_of<T>(&self, set: &CloneSet, use_it: impl FnOnce(&mut Memory) -> T) -> T {
        let CloneSet { metadata, .. } = set;
        let key = (metadata.namespace.clone(), metadata.name.clone());
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = memories.entry(key).or_default();
        if memory.uid != metadata.uid {
            *memory = Memory::of(&metadata.uid);
        }
        use_it(memory)
    }

    /// Forgets a CloneSet that is gone.
    fn forget(&self, key: &Key, course: &str) {
        self.courses.forget(course);
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Has an Event written; where there are too many, it is dropped.
    fn tell(&self, set: &CloneSet, mut event: Event) {
        // The API server refuses longer ones; those with the JSON of what failed are.
        event.message.truncate(event.message.floor_char_boundary(MESSAGE));
        drop(self.events.try_send((reference(set), event)));
    }
}

fn reference(set: &CloneSet) -> ObjectReference {
    let metadata = &set.metadata;
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(KIND.to_owned()),
        namespace: Some(metadata.namespace.clone()),
        name: Some(metadata.name.clone()),
        uid: Some(metadata.uid.clone()),
        resource_version: Some(metadata.resource_version.clone()),
        ..ObjectReference::default()
    }
}
