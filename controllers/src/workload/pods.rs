//! The Pods that some controller needs: all are watched and read once, only those are kept, and of them
//! only what some rule reads.
//!
//! Kept are Pods
//! - with sidecars of SidecarSets, which their controller updates ([`Pods::injected_by`]);
//! - with an owner of our own group, whose controller manages them ([`Pods::owned_by`]);
//! - that nobody manages and whose name ends with an ordinal, which a StatefulSet could adopt ([`Pods::orphans`]);
//! - that name a subset of a UnitedDeployment ([`Pods::of_subset`]);
//! - that nobody manages and that name a revision, which a DaemonSet could adopt ([`Pods::orphans_of_revisions`]);
//! - in a namespace all of whose Pods some object asks for, such as a budget ([`Pods::want`]);
//! - that some object asks for by name, such as a ContainerRecreateRequest ([`Pods::single`]);
//! - with sidecars that the SidecarTerminator has to end now, where its gate is on;
//! - that wait for a condition or for the start of a container, whole, until they do not wait any more
//!   ([`Pods::waiting`]).
//!
//! Of every Pod that has not ended a small record is kept as well, from which the accounts of SidecarSets are
//! made ([`Pods::ledger`]).
//!
//! The invariants are those of [`crate::workload::store`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::conditions::KRUISE_POD_READY;
use api::environment::CONTAINER_BARRIER;
use api::kinds::{cloneset, daemonset, statefulset};
use api::labels::{CONTROLLER_REVISION_HASH, SUBSET_NAME};
use cluster::resource::PODS;
use cluster::watched::{Key, WatchedObject};
use cluster::write;
use kinds::sidecar_terminator;
use kinds::sidecarset::account::ledger::Ledger;
use kinds::sidecarset::account::{PodRecord, Uid};
use kinds::sidecarset::rollout::injected;
use kinds::workload::ordinal;
use kube::Client;
use pod::launch_priority::release::PodFacts;
use pod::observed::{ObservedPod, Part, Pool};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::ReconcileError;
use crate::workload::store::follow::{Sink, readable};
use crate::workload::store::{Change, Identity, Kept, Store, identity, named};

mod namespaces;
mod single;
mod trim;

use namespaces::Namespaces;
use single::Singles;

/// The Pods.
pub struct Pods {
    kept: Store<ObservedPod>,
    waiting: Store<WatchedObject>,
    pool: Mutex<Pool>,
    ledger: Mutex<Ledger>,
    namespaces: Namespaces,
    singles: Singles,
    terminator: bool,
}

/// What Pods are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// The UID of an owner.
    Owner(Box<str>),
    /// The namespace.
    Namespace(Part<str>),
    /// The name of a SidecarSet whose sidecars were injected.
    SidecarSet(Box<str>),
    /// The node that the Pod is on.
    Node(Part<str>),
    /// The namespace and the name without the ordinal at its end, of a Pod that nobody manages.
    Orphan(Box<str>),
    /// The namespace of a Pod that nobody manages, and that names a revision.
    LostOwner(Part<str>),
    /// The namespace and the subset of a UnitedDeployment.
    Subset(Box<str>),
}

impl Kept for ObservedPod {
    type Group = Group;

    fn identity(&self) -> Identity<'_> {
        identity(&self.metadata)
    }

    fn groups(&self) -> Vec<Group> {
        let owners = self.metadata.owner_references.iter();
        let owners = owners.map(|owner| Group::Owner(owner.uid.as_str().into()));
        let sets = injected(self).map(|name| Group::SidecarSet(name.into()));
        let node = Some(&self.spec.node_name).filter(|node| !node.is_empty());
        let node = node.map(|node| Group::Node(node.clone()));
        let namespace = Group::Namespace(self.metadata.namespace.clone());
        let orphan = orphan(self).map(|stem| Group::Orphan(named(&self.metadata.namespace, stem)));
        let revised = has_lost_owner(self).then(|| Group::LostOwner(self.metadata.namespace.clone()));
        let subset = self.label(SUBSET_NAME);
        let subset = subset.map(|subset| Group::Subset(named(&self.metadata.namespace, subset)));
        owners.chain(sets).chain([namespace]).chain(node).chain(orphan).chain(revised).chain(subset).collect()
    }
}

/// A Pod that nobody manages and that names a revision, as Pods of DaemonSets do: one could adopt it.
fn has_lost_owner(pod: &ObservedPod) -> bool {
    pod.controller().is_none() && pod.label(CONTROLLER_REVISION_HASH).is_some()
}

/// What the name of a Pod begins with that nobody manages and a StatefulSet could adopt.
fn orphan(pod: &ObservedPod) -> Option<&str> {
    let (stem, _) = ordinal::split(&pod.metadata.name)?;
    pod.controller().is_none().then_some(stem)
}

impl Pods {
    /// No Pods yet. `terminator` says whether Pods are kept for the SidecarTerminator.
    pub fn new(terminator: bool) -> Self {
        Self {
            kept: Store::default(),
            waiting: Store::default(),
            pool: Mutex::default(),
            ledger: Mutex::default(),
            namespaces: Namespaces::default(),
            singles: Singles::default(),
            terminator,
        }
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// A Pod by namespace and name.
    pub fn get(&self, key: &Key) -> Option<Arc<ObservedPod>> {
        self.kept.get(key)
    }

    /// The Pods with this owner among their owners, in no particular order: all of them if it is of our own group,
    /// or in a namespace that is wanted.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<ObservedPod>> {
        self.kept.group(&Group::Owner(uid.into()))
    }

    /// The Pods of this namespace that nobody manages and that are named like this, with an ordinal behind it.
    pub(crate) fn orphans(&self, namespace: &str, stem: &str) -> Vec<Arc<ObservedPod>> {
        self.kept.group(&Group::Orphan(named(namespace, stem)))
    }

    /// The Pods of this namespace that nobody manages and that name a revision.
    pub(crate) fn orphans_of_revisions(&self, namespace: &str) -> Vec<Arc<ObservedPod>> {
        self.kept.group(&Group::LostOwner(namespace.into()))
    }

    /// The Pods of this namespace that name this subset of a UnitedDeployment, in no particular order.
    pub(crate) fn of_subset(&self, namespace: &str, subset: &str) -> Vec<Arc<ObservedPod>> {
        self.kept.group(&Group::Subset(named(namespace, subset)))
    }

    /// The Pods that have sidecars of this SidecarSet, in no particular order.
    pub fn injected_by(&self, sidecar_set: &str) -> Vec<Arc<ObservedPod>> {
        self.kept.group(&Group::SidecarSet(sidecar_set.into()))
    }

    /// The kept Pods on a node, in no particular order.
    pub(crate) fn on_node(&self, node: &str) -> Vec<Arc<ObservedPod>> {
        self.kept.group(&Group::Node(node.into()))
    }

    /// Every change of a kept Pod from now on, after one for each that is there.
    pub fn subscribe(&self) -> UnboundedReceiver<Change<ObservedPod>> {
        self.kept.subscribe()
    }

    /// Waits until all Pods were listed once.
    pub async fn synced(&self) {
        self.kept.synced().await;
    }

    /// Takes in a Pod that a write of our own returned: nobody plans on an older state from now on.
    ///
    /// # Errors
    /// The text is no Pod.
    pub fn written(&self, json: &str) -> Result<ObservedPod, ReconcileError> {
        let mut pod = ObservedPod::read(json).map_err(ReconcileError::of_object(PODS.kind))?;
        // One that is not needed any more goes when the watch reports it, not before.
        if self.is_needed(&pod) || self.kept.get(&pod.key()).is_some() {
            self.slim(&mut pod);
            self.kept.written(pod.clone());
        }
        if self.waiting.get(&pod.key()).is_some()
            && let Ok(object) = serde_json::from_str::<WatchedObject>(json)
        {
            self.waiting.written(object);
        }
        Ok(pod)
    }

    /// Reads a Pod and takes it in, or that there is none.
    ///
    /// # Errors
    /// The API server refuses, can't be reached, or answers with something else.
    pub(crate) async fn read(
        &self,
        client: &Client,
        key: &Key,
    ) -> Result<Option<ObservedPod>, ReconcileError> {
        // The version before: what comes into being meanwhile is younger.
        let known = self.get(key);
        let text = write::get(client, &PODS.namespaced(&key.0).name(&key.1)).await?;
        if let (None, Some(known)) = (&text, known) {
            self.deleted(key, &known.metadata.resource_version);
        }
        text.map(|text| self.written(&text)).transpose()
    }

    /// Takes in that a delete of our own took the Pod away at once: nobody plans on it from now on.
    pub fn deleted(&self, key: &Key, resource_version: &str) {
        self.kept.deleted(key, resource_version);
    }

    /// The Pods that wait for their first condition or for the release of a container, whole.
    pub fn waiting(&self) -> &Store<WatchedObject> {
        &self.waiting
    }

    /// The records of all Pods. Held for single operations only, never over an await.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the record of a Pod.
    fn note(&self, uid: &str, pod: Option<&ObservedPod>) {
        let record = pod.and_then(|pod| PodRecord::of(pod, &mut self.pool()));
        self.ledger().see(Uid::of(uid), record);
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what no rule reads, and keeps what other Pods have too only once.
    fn slim(&self, pod: &mut ObservedPod) {
        trim::trim(pod);
        self.pool().share(pod);
    }

    fn is_needed(&self, pod: &ObservedPod) -> bool {
        let mut owners = pod.metadata.owner_references.iter();
        self.namespaces.is_wanted(&pod.metadata.namespace)
            || self.singles.is_wanted(&pod.metadata.namespace, &pod.metadata.name)
            || injected(pod).next().is_some()
            || orphan(pod).is_some()
            || has_lost_owner(pod)
            || pod.label(SUBSET_NAME).is_some()
            || owners.any(|owner| owner.group() == api::APPS_GROUP)
            || (self.terminator && sidecar_terminator::is_due(pod))
    }
}

/// Whether the Pod lacks its first condition and no workload writes it, or has containers that wait for their release.
fn waits(pod: &ObservedPod, object: &WatchedObject) -> bool {
    let lacks_condition = pod.metadata.deletion_timestamp.is_none()
        && pod.has_readiness_gate(KRUISE_POD_READY)
        && pod.condition(KRUISE_POD_READY).is_none()
        && !is_left_to_workload(pod);
    let mut containers = pod.spec.containers.iter();
    lacks_condition
        || containers.any(|container| container.variable(CONTAINER_BARRIER).is_some())
            && PodFacts::read(object.json())
                .is_ok_and(|facts| !facts.completed && !facts.containers_ready && !facts.waiting.is_empty())
}

/// The controller of the Pod's workload writes the first condition `KruisePodReady`, once the Pod is on a node.
pub(crate) fn is_left_to_workload(pod: &ObservedPod) -> bool {
    let writes_conditions = |owner: &api::meta::OwnerReference| {
        let kinds = [cloneset::KIND, statefulset::KIND, daemonset::KIND];
        owner.group() == api::APPS_GROUP && kinds.contains(&owner.kind.as_str())
    };
    pod.controller().is_some_and(writes_conditions)
}

impl Sink for Pods {
    fn list_begins(&self) {
        self.namespaces.list_begins();
        self.kept.list_begins();
        self.waiting.list_begins();
        self.ledger().list_begins();
    }

    fn see(&self, object: WatchedObject) {
        let (key, version) = (object.key(), object.resource_version().to_owned());
        let pod = readable(&object, ObservedPod::read);
        self.note(object.uid(), pod.as_ref());
        if pod.as_ref().is_some_and(|pod| waits(pod, &object)) {
            self.waiting.apply(object);
        } else {
            self.waiting.delete(&key, &version);
        }
        match pod.filter(|pod| self.is_needed(pod)) {
            Some(mut pod) => {
                self.slim(&mut pod);
                self.kept.apply(pod);
            }
            None => self.kept.delete(&key, &version),
        }
    }

    fn gone(&self, object: &WatchedObject) {
        let (key, version) = (object.key(), object.resource_version());
        // First the record: a list of a namespace brings back only Pods of which there is one.
        self.ledger().gone(Uid::of(object.uid()));
        self.kept.delete(&key, version);
        self.waiting.delete(&key, version);
    }

    fn list_ends(&self) {
        self.ledger().list_ends();
        self.kept.list_ends();
        self.waiting.list_ends();
        self.namespaces.list_ends();
    }
}
