//! Controller `uniteddeployment-controller`: keeps a workload for each subset of a UnitedDeployment
//! (docs/behaviour/uniteddeployment.md#the-controller). What to do is decided by `planner::kinds::uniteddeployment`.
//!
//! ```text
//!   UnitedDeployments ----------------------------------------------.
//!   StatefulSets, CloneSets, Deployments (the workloads), Pods ------+--(old, new)--> triggers --keys--> queue
//!   reconcile: revision --> labels of Pods --> creations, deletions --> updates --> status
//! ```
//!
//! What can't be done for one subset stops no other one; existing workloads are not changed beside a creation or deletion
//! that fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::kinds::uniteddeployment::{API_VERSION, KIND, PLURAL, UnitedDeployment};
use cluster::events::about_in;
use cluster::resource::{PODS, Path, Resource};
use cluster::teller::{self, Teller};
use cluster::watched::{Key, WatchedObject};
use cluster::write::{self, PatchKind, background_deletion, deletion};
use cluster::{ApiError, Retry};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use planner::kinds::uniteddeployment::Failure;
use planner::kinds::uniteddeployment::children::{Child, ChildKind};
use planner::kinds::uniteddeployment::plan::{PatchOf, Plan, Snapshot, plan};
use planner::kinds::uniteddeployment::template::{Target, changed_child};
use planner::kinds::uniteddeployment::trigger;
use planner::pod::observed::ObservedPod;
use planner::workload::event::{Event, normal, warning};
use planner::workload::seen::Seen;
use tokio::sync::mpsc;

use crate::workload::controller_revisions::Group as RevisionGroup;
use crate::workload::paces::Paces;
use crate::workload::queue::{self, Next, QueueSettings, Reconciler};
use crate::workload::revisions::RevisionWriter;
use crate::workload::store::follow::{Readable, follow};
use crate::workload::store::{Change, Identity, Kept, Store, named};
use crate::workload::stores::Stores;
use crate::workload::triggers;
use crate::{Context, ReconcileError, now};

mod children;

use children::{Children, Group};

const NAME: &str = "uniteddeployment-controller";
const UNITED: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
/// Pause before a UnitedDeployment is looked at again that had changed when it was to be written to, or whose workloads are
/// not listed yet.
const SOON: Duration = Duration::from_secs(1);
/// How long all kinds of workloads are waited for at the start. One that is not installed is the workload of no subset.
const PATIENCE: Duration = Duration::from_secs(10);
/// Plans until the revision that is wanted must be there.
const PLANS: usize = 3;
/// How often an update is tried that meets changes of others.
const TRIES: usize = 5;

impl Kept for UnitedDeployment {
    type Group = ();

    fn identity(&self) -> Identity<'_> {
        Identity::from(&self.metadata)
    }
}

impl Readable for UnitedDeployment {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

struct Controller {
    context: Context,
    stores: Arc<Stores>,
    united: Store<UnitedDeployment>,
    children: [Children; 4],
    /// What was told of each last, so that it is told once.
    told: Mutex<HashMap<Key, Vec<Event>>>,
    paces: Paces,
    teller: Teller,
}

/// Reconciles UnitedDeployments. Ends never.
pub(crate) async fn run(context: Context, stores: Arc<Stores>) {
    let (teller, told) = teller::teller("Reconcile");
    let controller = Arc::new(Controller {
        context: context.clone(),
        stores: stores.clone(),
        united: Store::default(),
        children: ChildKind::ALL.map(Children::new),
        told: Mutex::default(),
        paces: Paces::default(),
        teller: teller.clone(),
    });
    let caches = &context.metrics.caches;
    caches.count(NAME, KIND, &controller, |all| all.united.len());
    caches.count("uniteddeployment-workloads", "Deployment", &controller, |all| {
        all.children_of(ChildKind::Deployment).stored.len()
    });
    let (sender, keys) = mpsc::unbounded_channel();
    let settings = QueueSettings { name: NAME, workers: context.settings.uniteddeployment_workers };
    let work = async {
        controller.united.synced().await;
        stores.synced().await;
        let listed = join_all(controller.children.iter().map(|children| children.stored.synced()));
        // Those that are missing then are waited for by each that needs them.
        drop(tokio::time::timeout(PATIENCE, listed).await);
        queue::serve(settings, &context, keys, controller.clone(), (teller, told)).await;
    };
    let all =
        |kind: Resource<'_>| Api::<WatchedObject>::all_with(context.client.clone(), &kind.api_resource());
    let children = controller.children.iter().map(|children| {
        let controller = &controller;
        let changes = children.stored.subscribe();
        let forward = triggers::forward(changes, sender.clone(), |change| controller.of_child(change));
        async { tokio::join!(follow(all(children.resource()), Config::default(), children), forward) }
    });
    tokio::join!(
        follow(all(UNITED), Config::default(), &controller.united),
        triggers::forward(controller.united.subscribe(), sender.clone(), of_united),
        triggers::forward(stores.pods.subscribe(), sender.clone(), |change| controller.of_pod(change)),
        join_all(children),
        work,
    );
}

fn of_united(change: &Change<UnitedDeployment>) -> Option<(Key, Duration)> {
    let news = trigger::of_united(change.old.as_deref(), change.new.as_deref());
    news.then(|| change.states().next().map(|united| (united.key(), Duration::ZERO))).flatten()
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let Some(united) = self.united.get(key) else {
            self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            self.paces.forget(key);
            return Ok(Next::Done);
        };
        let wanted = ChildKind::of(&united.spec.template);
        if wanted.is_some_and(|kind| !self.children_of(kind).stored.is_synced()) {
            return Ok(Next::After(SOON));
        }
        let mut plan = self.plan(&united);
        for _ in 1..PLANS {
            let Some(step) = plan.revision.take() else { break };
            if let Err(error) = self.revisions(&united).write(step).await {
                self.tell(&united, warning("FailedRevisionProvision", error.to_string()));
                return Err(error);
            }
            plan = self.plan(&united);
        }
        if plan.revision.is_some() {
            return Err(ReconcileError::Unsettled);
        }
        self.tell_once(&united, std::mem::take(&mut plan.events));
        let failure = match plan.problem.take() {
            Some(problem) => Some(Failure::Provision(problem)),
            None => self.carry_out(&united, &mut plan).await,
        };
        let status = plan.status.take().and_then(|draft| draft.patch(&united, failure.as_ref()));
        let held = status.as_ref().and_then(|status| self.paces.wait(key, status.is_urgent));
        let status = status.filter(|_| held.is_none());
        if !self.write_status(&united, status.map(|status| status.patch)).await? {
            return Ok(Next::After(SOON));
        }
        match failure {
            None => Ok(held.into_iter().chain(plan.again).min().map_or(Next::Done, Next::After)),
            Some(Failure::Provision(message) | Failure::Update(message)) => {
                Err(ReconcileError::Action(message))
            }
        }
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.united.get(key).map(|united| reference(&united))
    }
}

impl Controller {
    fn client(&self) -> &Client {
        &self.context.client
    }

    fn children_of(&self, kind: ChildKind) -> &Children {
        let [advanced, clone_sets, deployments, stateful] = &self.children;
        match kind {
            ChildKind::AdvancedStatefulSet => advanced,
            ChildKind::CloneSet => clone_sets,
            ChildKind::Deployment => deployments,
            ChildKind::StatefulSet => stateful,
        }
    }

    fn of_child(&self, change: &Change<Child>) -> Vec<(Key, Duration)> {
        if !trigger::of_child(change.old.as_deref(), change.new.as_deref()) {
            return Vec::new();
        }
        let owners = change.states().filter_map(|child| Some((&child.namespace, &child.owner.as_ref()?.0)));
        owners.map(|(namespace, name)| ((namespace.to_string(), name.to_string()), Duration::ZERO)).collect()
    }

    /// The UnitedDeployments with a subset of the name that the Pod has.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
        let Some((namespace, subset)) = trigger::of_pod(change.old.as_deref(), change.new.as_deref()) else {
            return Vec::new();
        };
        let group = Group::Subset(named(namespace, subset));
        let children = self.children.iter().flat_map(|children| children.stored.group(&group));
        let owners = children.filter_map(|child| Some(child.owner.as_ref()?.0.to_string()));
        owners.map(|name| ((namespace.to_owned(), name), Duration::ZERO)).collect()
    }

    fn plan(&self, united: &UnitedDeployment) -> Plan {
        let metadata = &united.metadata;
        let namespace = metadata.namespace.as_str();
        let groups = [Group::Owner(metadata.uid.as_str().into()), Group::Orphans(namespace.into())];
        let children = self.children.iter().flat_map(|children| {
            groups.iter().flat_map(|group| children.stored.group(group)).collect::<Vec<_>>()
        });
        let children: Vec<Arc<Child>> = children.collect();
        let mut subsets: Vec<&str> = children.iter().map(|child| child.subset()).collect();
        subsets.sort_unstable();
        subsets.dedup();
        let pods = subsets.into_iter().flat_map(|subset| self.stores.pods.of_subset(namespace, subset));
        let stored = &self.stores.revisions.stored;
        let mut revisions = stored.group(&RevisionGroup::Owner(metadata.uid.as_str().into()));
        revisions.extend(stored.group(&RevisionGroup::Orphans(namespace.into())));
        plan(&Snapshot {
            united,
            children: &children,
            pods: &pods.collect::<Vec<_>>(),
            revisions: &revisions,
            now: now().now,
        })
    }

    fn revisions<'a>(&'a self, united: &'a UnitedDeployment) -> RevisionWriter<'a> {
        RevisionWriter {
            client: self.client(),
            stored: &self.stores.revisions.stored,
            namespace: &united.metadata.namespace,
        }
    }

    /// Carries a plan out, as far as that is possible; gives what was not.
    async fn carry_out(&self, united: &UnitedDeployment, plan: &mut Plan) -> Option<Failure> {
        let mut failures = Vec::new();
        for (kind, adoption) in &plan.adoptions {
            let children = self.children_of(*kind);
            let path = self.path(children, united).name(&adoption.seen.name);
            match self.patch(&path, adoption).await {
                Ok(Some(text)) => {
                    failures.extend(children.take_in(&text).err().map(|error| error.to_string()));
                }
                Ok(None) => {}
                Err(error) => failures.push(error.to_string()),
            }
        }
        for label in &plan.labels {
            failures.extend(self.label(united, label).await.err().map(|error| error.to_string()));
        }
        if !failures.is_empty() {
            return Some(Failure::Provision(failures.join("; ")));
        }
        self.create(united, plan, &mut failures).await;
        self.delete(united, plan, &mut failures).await;
        if !failures.is_empty() {
            return Some(Failure::Provision(failures.join("; ")));
        }
        for (seen, target) in &plan.updates {
            if let Err(problem) = self.update(united, seen, target).await {
                failures.push(self.failed_at(united, target.kind, &seen.name, &problem));
            }
        }
        for pod in &plan.stuck {
            let path = PODS.namespaced(&united.metadata.namespace).name(&pod.name);
            match write::delete(self.client(), &path, deletion(&pod.uid, Some(&pod.resource_version))).await {
                Err(error) if error.retry() != Retry::Now => failures.push(error.to_string()),
                _ => {}
            }
        }
        for revision in &plan.obsolete {
            failures
                .extend(self.revisions(united).delete(revision).await.err().map(|error| error.to_string()));
        }
        (!failures.is_empty()).then(|| Failure::Update(failures.join("; ")))
    }

    fn path(&self, children: &Children, united: &UnitedDeployment) -> Path {
        children.resource().namespaced(&united.metadata.namespace)
    }

    async fn create(&self, united: &UnitedDeployment, plan: &mut Plan, failures: &mut Vec<String>) {
        let Some(kind) = ChildKind::of(&united.spec.template) else { return };
        let children = self.children_of(kind);
        let mut created = 0_usize;
        for creation in std::mem::take(&mut plan.creations) {
            let made = match creation.json {
                Ok(json) => write::create(self.client(), &self.path(children, united), json).await,
                Err(problem) => {
                    failures.push(self.failed_at(united, kind, &creation.subset, &problem));
                    continue;
                }
            };
            match made.map_err(ReconcileError::from).and_then(|text| children.take_in(&text)) {
                Ok(_) => created += 1,
                Err(error) => {
                    failures.push(self.failed_at(united, kind, &creation.subset, &error.to_string()));
                }
            }
        }
        if created > 0 {
            let message = format!("Create {created} Subset ({})", kind.told());
            self.tell(united, normal("SuccessfulUpdateSubset", message));
        }
    }

    async fn delete(&self, united: &UnitedDeployment, plan: &Plan, failures: &mut Vec<String>) {
        for kind in ChildKind::ALL {
            let children = self.children_of(kind);
            let mut deleted = 0_usize;
            for (_, seen) in plan.deletions.iter().filter(|(of, _)| *of == kind) {
                let path = self.path(children, united).name(&seen.name);
                match write::delete(self.client(), &path, background_deletion(&seen.uid)).await {
                    Ok(text) => {
                        children.deleted(&united.metadata.namespace, seen, &text);
                        deleted += 1;
                    }
                    Err(error) if error.retry() == Retry::Now => {}
                    Err(error) => failures.push(self.failed_at(united, kind, &seen.name, &error.to_string())),
                }
            }
            if deleted > 0 {
                let message = format!("Delete {deleted} Subset ({})", kind.told());
                self.tell(united, normal("SuccessfulUpdateSubset", message));
            }
        }
    }

    /// Brings a workload up to date, with what others have changed in it meanwhile.
    async fn update(&self, united: &UnitedDeployment, seen: &Seen, target: &Target) -> Result<(), String> {
        let children = self.children_of(target.kind);
        let path = self.path(children, united).name(&seen.name);
        let mut tries = 0;
        loop {
            let live = write::get(self.client(), &path).await.map_err(|error| error.to_string())?;
            let Some(live) = live else { return Ok(()) };
            let child = Child::read(target.kind, &live).map_err(|error| error.to_string())?;
            // Another one has taken its name.
            if child.is_none_or(|child| *child.uid != *seen.uid) {
                return Ok(());
            }
            let changed = changed_child(&live, united, target)?;
            match write::replace(self.client(), &path, changed).await {
                Ok(text) => return children.take_in(&text).map(drop).map_err(|error| error.to_string()),
                Err(error) if error.is_conflict() && tries < TRIES => tries += 1,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    async fn label(&self, united: &UnitedDeployment, label: &PatchOf) -> Result<(), ReconcileError> {
        let path = PODS.namespaced(&united.metadata.namespace).name(&label.seen.name);
        if let Some(text) = self.patch(&path, label).await? {
            self.stores.pods.written(&text).map_err(ReconcileError::of_object("Pod"))?;
        }
        Ok(())
    }

    /// Sends a patch; `None` where the object has changed or is gone.
    async fn patch(&self, path: &Path, patch: &PatchOf) -> Result<Option<String>, ApiError> {
        match write::patch(self.client(), path, PatchKind::Merge, patch.patch.clone()).await {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.retry() == Retry::Now => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Brings the status up to date; false if the UnitedDeployment has changed or is gone.
    async fn write_status(
        &self,
        united: &UnitedDeployment,
        patch: Option<String>,
    ) -> Result<bool, ReconcileError> {
        let Some(patch) = patch else { return Ok(true) };
        let path = UNITED.namespaced(united.namespace()).name(united.name()).subresource("status");
        match write::patch(self.client(), &path, PatchKind::Merge, patch).await {
            Ok(text) => {
                let after = UnitedDeployment::read(&text).map_err(ReconcileError::of_object(KIND))?;
                self.united.written(after);
                Ok(true)
            }
            Err(error) if error.retry() == Retry::Now => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells of a subset that could not be brought on.
    fn failed_at(&self, united: &UnitedDeployment, kind: ChildKind, name: &str, problem: &str) -> String {
        let message = format!("Error updating PodSet ({}) {name} when updating: {problem}", kind.told());
        self.tell(united, warning("FailedUpdateSubset", message.clone()));
        message
    }

    /// Tells what goes on, once as long as it is the same.
    fn tell_once(&self, united: &UnitedDeployment, events: Vec<Event>) {
        let key = united.key();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.remove(&key).unwrap_or_default();
        events
            .iter()
            .filter(|event| !before.contains(event))
            .for_each(|event| self.tell(united, event.clone()));
        if !events.is_empty() {
            told.insert(key, events);
        }
    }

    fn tell(&self, united: &UnitedDeployment, event: Event) {
        self.teller.tell(reference(united), event);
    }
}

fn reference(united: &UnitedDeployment) -> ObjectReference {
    about_in(united.namespace(), API_VERSION, KIND, united.name(), united.uid())
}
