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
use api::kinds::cloneset::{API_VERSION, CloneSet, KIND, PLURAL};
use api::kinds::imagepulljob;
use cluster::resource::Resource;
use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use cluster::{ApiError, Retry};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use planner::kinds::cloneset::{
    Action, Claim, Outcome, Plan, Seen, Settings, Snapshot, StatusPlan, plan, trigger,
};
use planner::pod::observed::ObservedPod;
use planner::text::server_version::ServerVersion;
use planner::workload::event::Event;
use planner::workload::revision::workload::StoredRevision;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::workload::controller_revisions::Group;
use crate::workload::course::Courses;
use crate::workload::events::{self, Teller};
use crate::workload::pods::Pods;
use crate::workload::queue::{self, Next, QueueSettings, Reconciler};
use crate::workload::store::{Change, Kept};
use crate::workload::triggers;
use crate::{Context, ReconcileError, now};

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
const CLONE_SETS: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
const PULL_JOBS: Resource<'_> =
    Resource::new(imagepulljob::API_VERSION, imagepulljob::PLURAL, imagepulljob::KIND);

/// Reconciles CloneSets.
struct Controller {
    client: Client,
    context: Context,
    settings: Settings,
    pods: Arc<Pods>,
    stores: Stores,
    nodes: Nodes,
    courses: Courses,
    memories: Mutex<HashMap<Key, Memory>>,
    teller: Teller,
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
    let (teller, told) = events::teller("Reconcile");
    let settings = settings(&context).await;
    let controller = Arc::new(Controller::new(context, settings, pods, teller.clone()));
    let caches = &controller.context.metrics.caches;
    caches.count(NAME, KIND, &controller, |all| all.stores.sets.len());
    caches.count(NAME, "PersistentVolumeClaim", &controller, |all| all.stores.claims.len());
    caches.count(NAME, "ControllerRevision", &controller, |all| all.stores.revisions.0.len());
    let (sender, keys) = mpsc::unbounded_channel();
    let workers = controller.context.settings.cloneset_workers;
    let work = async {
        tokio::join!(controller.pods.synced(), controller.stores.synced());
        let settings = QueueSettings { name: NAME, workers };
        queue::serve(settings, &controller.context, keys, controller.clone(), (teller, told)).await;
    };
    tokio::join!(
        controller.stores.follow(&client),
        triggers::forward(controller.stores.sets.subscribe(), sender.clone(), |change| controller
            .of_set(change)),
        triggers::forward(controller.pods.subscribe(), sender.clone(), of_pod),
        triggers::forward(controller.stores.claims.subscribe(), sender.clone(), of_claim),
        triggers::forward(controller.stores.revisions.0.subscribe(), sender, of_revision),
        work,
    );
}

/// What the API server can do. It is asked until it answers: plans differ by it.
async fn settings(context: &Context) -> Settings {
    let gates = &context.settings.gates;
    let wanted = [Feature::KruiseDaemon, Feature::PreDownloadImageForInPlaceUpdate];
    let pre_download = wanted.into_iter().all(|gate| gates.enabled(gate));
    loop {
        let version = context.client.apiserver_version().await;
        let path = PULL_JOBS.all().query("limit=1");
        let jobs = if pre_download { write::get(&context.client, &path).await } else { Ok(None) };
        match (version.map_err(ApiError::from), jobs) {
            (Ok(version), Ok(jobs)) => {
                return Settings {
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

fn at_once(key: Key) -> (Key, Duration) {
    (key, Duration::ZERO)
}

fn of_set(change: &Change<CloneSet>) -> Option<(Key, Duration)> {
    trigger::of_set(change.old.as_deref(), change.new.as_deref()).map(at_once)
}

fn of_pod(change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
    trigger::of_pod(change.old.as_deref(), change.new.as_deref()).into_iter().map(at_once).collect()
}

fn of_claim(change: &Change<Claim>) -> Vec<(Key, Duration)> {
    trigger::of_claim(change.old.as_deref(), change.new.as_deref()).into_iter().map(at_once).collect()
}

fn of_revision(change: &Change<StoredRevision>) -> Vec<(Key, Duration)> {
    trigger::of_revision(change.old.as_deref(), change.new.as_deref()).into_iter().map(at_once).collect()
}

fn course(key: &Key) -> String {
    format!("{}/{}", key.0, key.1)
}

impl Reconciler for Controller {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let course = course(key);
        let Some(set) = self.stores.sets.get(key) else {
            self.forget(key, &course);
            return Ok(Next::Done);
        };
        if self.memory_of(&set, |memory| memory.namespace_ends) {
            return Ok(Next::Done);
        }
        if let Some(rest) = self.courses.rest(&course) {
            return Ok(Next::After(rest));
        }
        let next = self.advance(&set, &course).await;
        match &next {
            // What was refused has pauses of its own.
            Ok(_) | Err(ReconcileError::Action(_)) => self.courses.succeeded(&course),
            Err(error) if error.retry() == Retry::Never => {
                self.memory_of(&set, |memory| memory.namespace_ends = true);
            }
            Err(_) => self.courses.failed(&course),
        }
        next
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.stores.sets.get(key).map(|set| reference(&set))
    }

    fn panicked(&self, key: &Key) {
        self.courses.failed(&course(key));
    }
}

impl Controller {
    fn new(context: Context, settings: Settings, pods: Arc<Pods>, teller: Teller) -> Self {
        Self {
            settings,
            stores: Stores::default(),
            nodes: Nodes::default(),
            courses: Courses::default(),
            memories: Mutex::default(),
            pods,
            teller,
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

    async fn advance(&self, set: &CloneSet, course: &str) -> Result<Next, ReconcileError> {
        self.look_again(set).await?;
        let pods = self.pods.owned_by(&set.metadata.uid);
        let nodes = self.nodes(set, pods.len()).await?;
        let began = Instant::now();
        let mut planned = self.plan(set, &pods, &nodes);
        let mut took = began.elapsed();
        if let Some(step) = planned.revision.take() {
            let collisions = self.revisions(set).write(step).await?;
            if collisions.is_some() {
                self.memory_of(set, |memory| memory.collision_count = collisions);
            }
            let began = Instant::now();
            planned = self.plan(set, &pods, &nodes);
            took += began.elapsed();
            if planned.revision.is_some() {
                return Err(ReconcileError::Unsettled);
            }
        }
        self.courses.plan_took(course, took);
        let work = Work::new(set, &pods);
        self.carry_out(&work, planned).await
    }

    fn plan(&self, set: &CloneSet, pods: &[Arc<ObservedPod>], nodes: &Labels) -> Plan {
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
            set,
            pods,
            claims: &claims,
            revisions: &revisions,
            nodes,
            refused: &refused,
            held: &held,
            collision_count,
            gates: &self.context.settings.gates,
            settings: self.settings,
        };
        plan(&snapshot, now())
    }

    /// Steps 2 to 8 of [`Plan`].
    async fn carry_out(&self, work: &Work<'_>, plan: Plan) -> Result<Next, ReconcileError> {
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
        if self.memory(work, |memory| memory.namespace_ends) {
            return Ok(Next::Done);
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
        self.pre_download(work, plan.pre_download).await;
        if let Some(patch) = plan.pods_to_delete
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
        status: &StatusPlan,
        scale: &Outcome,
        update: &Outcome,
    ) -> Stored {
        let Some(patch) = status.patch(scale, update) else { return Stored::Yes };
        if self.memory(work, |memory| memory.pauses.held(STATUS)).is_some() {
            return Stored::Held;
        }
        match self.patch_set(work.set, "status", PatchKind::Merge, patch).await {
            Ok(written) => {
                self.memory(work, |memory| memory.pauses.succeeded(STATUS));
                if written { Stored::Yes } else { Stored::Outdated }
            }
            Err(error) => {
                let error = error.message();
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
        let path = CLONE_SETS.namespaced(&set.metadata.namespace).name(&set.metadata.name).subresource(part);
        match write::patch(&self.client, &path, kind, patch).await {
            Ok(text) => {
                let set = serde_json::from_str(&text).map_err(ReconcileError::of_object(KIND))?;
                self.stores.sets.written(set);
            }
            Err(error) if error.retry() == Retry::Now => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Labels of Nodes, where Pods may have to be chosen by them.
    async fn nodes(&self, set: &CloneSet, pods: usize) -> Result<Labels, ReconcileError> {
        let spread = set
            .spec
            .template
            .as_ref()
            .is_some_and(|template| template.get().contains("topologySpreadConstraints"));
        let wanted = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0);
        if spread && pods > wanted {
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

    fn tell(&self, set: &CloneSet, event: Event) {
        self.teller.tell(reference(set), event);
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
