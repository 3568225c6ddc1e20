//! Controller `persistentpodstate-controller`: remembers where Pods run, and keeps the PersistentPodStates that
//! workloads ask for (docs/behaviour/persistentpodstate.md). What to do is decided by
//! `kinds::persistentpodstate`.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::persistentpodstate::{API_VERSION, KIND, PLURAL, PersistentPodState};
use api::kinds::shared::TargetReference;
use cluster::event_sender::EventSender;
use cluster::events::about_in;
use cluster::resource::Resource;
use cluster::watched::Key;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::persistentpodstate::generation::{self, Step};
use kinds::persistentpodstate::plan::{Snapshot, plan};
use kinds::persistentpodstate::trigger;
use kinds::persistentpodstate::workloads::{self, BUILT_IN, built_in};
use kinds::workload::resolved::{Reference, ResolvedWorkload};
use kinds::workload::target::Workload;
use kube::Client;
use pod::observed::ObservedPod;
use values::event::Event;

use crate::metrics::objects;
use crate::workload::builder::{Builder, Next, QueueSettings, Reconciler};
use crate::workload::store::follow::Whole;
use crate::workload::store::{Change, Kept, Store};
use crate::workload::stores::Stores;
use crate::{Context, ReconcileError};

mod listed;
#[cfg(test)]
mod tests;

use listed::{Listed, ListedKinds};

const NAME: &str = "persistentpodstate-controller";
const STATES: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
/// How long changes are gathered that come in great numbers: one write remembers many Pods.
const GATHERED: Duration = Duration::from_millis(100);
/// Pause before an object is reconciled again that had changed when it was to be written.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How often targets are read whose changes are not watched, and those that can't be read.
const UNWATCHED: Duration = Duration::from_secs(30);

impl Whole for PersistentPodState {}

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// A PersistentPodState: what it remembers.
    State(Key),
    /// A workload: the PersistentPodState that it asks for.
    Workload(Asking),
}

/// A workload that may ask for a PersistentPodState, in the version in which it is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asking {
    namespace: String,
    api_version: String,
    kind: String,
    name: String,
}

struct Controller {
    client: Client,
    states: Store<PersistentPodState>,
    stores: Arc<Stores>,
    listed: ListedKinds,
    event_sender: EventSender,
    context: Context,
}

/// Reconciles PersistentPodStates. Never returns.
pub async fn run(context: Context, stores: Arc<Stores>) {
    // Any of them may ask for an object.
    for (api_version, kind) in BUILT_IN {
        stores.finder.watch(api_version, kind);
    }
    let settings = QueueSettings { name: NAME, workers: context.settings.persistentpodstate_workers };
    Builder::new(&context, settings, "Remember", |event_sender| Controller {
        client: context.client.clone(),
        states: Store::default(),
        stores: stores.clone(),
        listed: ListedKinds::default(),
        event_sender,
        context: context.clone(),
    })
    .watches((STATES, PLURAL), |all| &all.states, Controller::of_state)
    .shows(&objects::persistentpodstate::TABLE, |all| all.states.all(), |state| state)
    .woken_by(stores.pods.subscribe(), Controller::of_pod)
    .beside(|controller, items| async move { listed::follow(&controller, &items).await })
    .woken_by_each(stores.finder.subscribe(), Controller::of_workload)
    .run()
    .await;
}

impl Reconciler for Controller {
    type Key = Item;
    type Error = ReconcileError;

    async fn reconcile(&self, item: &Item) -> Result<Next, ReconcileError> {
        match item {
            Item::State(key) => self.remember(key).await,
            Item::Workload(asking) => self.generate(asking).await,
        }
    }

    fn object(&self, item: &Item) -> Option<ObjectReference> {
        match item {
            Item::State(key) => self.states.get(key).map(|state| state.reference(&STATES)),
            Item::Workload(_) => None,
        }
    }
}

impl Controller {
    fn of_namespace(&self, namespace: &str) -> Vec<Arc<PersistentPodState>> {
        self.states.group(&namespace.into())
    }

    fn of_state(&self, change: &Change<PersistentPodState>) -> Vec<(Item, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let said = |state: &PersistentPodState| (state.metadata.uid.clone(), state.metadata.generation);
        let due = if old.map(said) == new.map(said) { GATHERED } else { Duration::ZERO };
        let Some(state) = new.or(old) else { return Vec::new() };
        let mut items = vec![(Item::State(state.key()), due)];
        // A deleted one may have blocked another, or still be wanted.
        let gone = old.filter(|old| new.is_none_or(|new| new.metadata.uid != old.metadata.uid));
        if let Some(gone) = gone {
            let target = Workload::from(&gone.spec.target_ref);
            items.extend(self.asking(&gone.metadata.namespace, &target).map(|item| (item, Duration::ZERO)));
        }
        items
    }

    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Item, Duration)> {
        if !trigger::of_pod(change.old.as_deref(), change.new.as_deref()) {
            return Vec::new();
        }
        let mut items = Vec::new();
        for pod in change.states() {
            if let Some(controller) = pod.controller() {
                items.extend(self.of_target(pod.namespace(), &Workload::from(controller)));
            }
        }
        items.dedup();
        items.into_iter().map(|item| (item, GATHERED)).collect()
    }

    fn of_workload(&self, change: &Change<ResolvedWorkload>) -> Vec<(Item, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(workload) = new.or(old) else { return Vec::new() };
        let target = Workload::new(&workload.group, &workload.kind, &workload.metadata.name);
        let mut items = Vec::new();
        if trigger::of_records(old, new) {
            items.extend(self.of_target(workload.namespace(), &target));
        }
        if trigger::of_generation(old, new) {
            items.extend(self.asking(workload.namespace(), &target));
        }
        items.into_iter().map(|item| (item, Duration::ZERO)).collect()
    }

    /// The PersistentPodStates of a workload.
    fn of_target(&self, namespace: &str, target: &Workload<'_>) -> Vec<Item> {
        let mut states = self.of_namespace(namespace);
        states.retain(|state| Workload::from(&state.spec.target_ref) == *target);
        states.iter().map(|state| Item::State(state.key())).collect()
    }

    /// The workload as one that may ask for a PersistentPodState; `None` where its kind is not known.
    fn asking(&self, namespace: &str, workload: &Workload<'_>) -> Option<Item> {
        let api_version = match built_in(workload) {
            Some(api_version) => api_version.to_owned(),
            None => self.listed.api_version(workload)?,
        };
        Some(Item::Workload(Asking {
            namespace: namespace.to_owned(),
            api_version,
            kind: workload.kind.to_string(),
            name: workload.name.to_string(),
        }))
    }

    /// Remembers where the Pods of a workload run.
    async fn remember(&self, key: &Key) -> Result<Next, ReconcileError> {
        let pods = &self.stores.pods;
        let get = || self.states.get(key).filter(|state| state.metadata.deletion_timestamp.is_none());
        let Some(state) = get() else {
            pods.leave(KIND, key);
            return Ok(Next::Done);
        };
        // Pods of Kruise's own workloads are kept anyway.
        if Workload::from(&state.spec.target_ref).group == api::APPS_GROUP {
            pods.leave(KIND, key);
            pods.synced().await;
        } else {
            pods.want(KIND, key);
            pods.complete(&self.client, &key.0).await?;
        }
        let Some(state) = get() else { return Ok(Next::Done) };
        let workload = match self.find(&key.0, &state.spec.target_ref).await {
            // Nobody knows which Pods there are to be: what is remembered stays.
            Err(error @ ReconcileError::Unreadable(_)) => {
                let event = Event { warning: true, reason: "ReadTargetFailed", message: error.message() };
                self.event_sender.record(state.reference(&STATES), event);
                return Ok(Next::After(UNWATCHED));
            }
            workload => workload?,
        };
        let owned = workload.as_ref().map(|workload| pods.owned_by(&workload.metadata.uid));
        let owned = owned.unwrap_or_default();
        let nodes = if owned.is_empty() { Arc::default() } else { self.stores.nodes.facts().await? };
        let plan = plan(&Snapshot {
            state: &state,
            workload: workload.as_deref(),
            pods: &owned,
            nodes: &nodes,
            gates: &self.context.settings.gates,
        });
        if !self.write_status(&state, plan.status).await? {
            return Ok(Next::After(RETRY_DELAY));
        }
        match plan.unknown_node {
            Some(node) => Err(ReconcileError::NoNode(node)),
            None if self.is_watched(&state.spec.target_ref) => Ok(Next::Done),
            None => Ok(Next::After(UNWATCHED)),
        }
    }

    /// Whether changes of a target are reported.
    fn is_watched(&self, target: &TargetReference) -> bool {
        let workload = Workload::from(target);
        built_in(&workload).is_some() || self.listed.api_version(&workload).is_some()
    }

    /// A workload; `None` where there is none.
    async fn find(
        &self,
        namespace: &str,
        target: &TargetReference,
    ) -> Result<Option<Arc<ResolvedWorkload>>, ReconcileError> {
        match self.listed.get(namespace, &Workload::from(target)) {
            Listed::Known(Some(found)) if found.replicas.is_some() => return Ok(Some(found)),
            Listed::Known(None) => return Ok(None),
            // Its scale may say how many Pods it wants.
            Listed::Known(Some(_)) | Listed::Unknown => {}
        }
        let (api_version, kind, name) = (workloads::api_version(target), &target.kind, &target.name);
        let reference = Reference { api_version, kind, name, uid: None };
        let found = self.stores.finder.find(&self.client, namespace, reference).await?;
        match found.as_ref().and_then(|found| found.hidden.clone()) {
            Some(problem) => Err(ReconcileError::Unreadable(problem)),
            None => Ok(found),
        }
    }

    /// Writes the status; false where the object was in another state.
    async fn write_status(
        &self,
        state: &PersistentPodState,
        patch: Option<String>,
    ) -> Result<bool, ReconcileError> {
        let Some(patch) = patch else { return Ok(true) };
        let path = path(&state.metadata.namespace, &state.metadata.name).subresource("status");
        self.states.take_in(KIND, write::patch(&self.client, &path, PatchKind::Merge, patch).await)
    }

    /// Keeps the PersistentPodState that a workload asks for.
    async fn generate(&self, asking: &Asking) -> Result<Next, ReconcileError> {
        let Asking { namespace, api_version, kind, name } = asking;
        self.states.synced().await;
        let target =
            TargetReference { api_version: api_version.clone(), kind: kind.clone(), name: name.clone() };
        let workload = match self.find(namespace, &target).await {
            Err(ReconcileError::Unreadable(_)) => return Ok(Next::After(UNWATCHED)),
            workload => workload?,
        };
        let Some(workload) = workload else { return Ok(Next::Done) };
        let (collection, object) = (STATES.namespaced(namespace), path(namespace, name));
        let is_written = match generation::plan(&workload, api_version, &self.of_namespace(namespace)) {
            Step::Nothing => true,
            Step::Create(object) => {
                self.states.take_in(KIND, write::create(&self.client, &collection, object).await)?
            }
            Step::Change(patch) => {
                let answer = write::patch(&self.client, &object, PatchKind::Merge, patch).await;
                self.states.take_in(KIND, answer)?
            }
            Step::Delete(state) => {
                let path = path(state.namespace(), state.name());
                unless_outdated(write::delete(&self.client, &path, deletion(state.uid(), None)).await)?;
                true
            }
            Step::Tell(event) => {
                let place = about_in(namespace, api_version, kind, name, &workload.metadata.uid);
                self.event_sender.record(place, event);
                true
            }
        };
        Ok(if is_written { Next::Done } else { Next::After(RETRY_DELAY) })
    }
}

fn path(namespace: &str, name: &str) -> cluster::resource::Path {
    STATES.namespaced(namespace).name(name)
}
