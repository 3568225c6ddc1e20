//! Finds the workload behind Pods and the Pods of a workload, for what does not manage them: budgets and spreads.
//!
//! The usual kinds are watched, each from the first time that somebody asks for it; of their objects little is kept.
//! Objects of other kinds are read, with their `scale`, and remembered for a while. What is not served, or may not be
//! read, is logged and counts as unknown: it stops nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::kinds::{cloneset, statefulset};
use api::meta::OwnerReference;
use cluster::discovery::Discovery;
use cluster::resource::Resource;
use cluster::watched::WatchedObject;
use cluster::{ErrorReason, write};
use futures::future::join_all;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use planner::pod::observed::ObservedPod;
use planner::workload::found::{FoundWorkload, Reference, Served};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::pods::Pods;
use super::store::follow::{Sink, follow, readable};
use super::store::{Change, Identity, Kept, Store};
use crate::ReconcileError;

/// The kinds that are watched.
const KINDS: [Resource<'_>; 7] = [
    DEPLOYMENTS,
    REPLICA_SETS,
    Resource::new("apps/v1", "statefulsets", "StatefulSet"),
    Resource::new(cloneset::API_VERSION, cloneset::PLURAL, cloneset::KIND),
    Resource::new(statefulset::API_VERSION, statefulset::PLURAL, statefulset::KIND),
    Resource::new("v1", "replicationcontrollers", "ReplicationController"),
    JOBS,
];
const JOBS: Resource<'_> = Resource::new("batch/v1", "jobs", "Job");
const DEPLOYMENTS: Resource<'_> = Resource::new("apps/v1", "deployments", "Deployment");
const REPLICA_SETS: Resource<'_> = Resource::new("apps/v1", "replicasets", "ReplicaSet");
/// How long what was read of other kinds is believed.
pub(crate) const MEMORY: Duration = Duration::from_secs(30);
/// Longest time for the first list of a kind.
const PATIENCE: Duration = Duration::from_secs(15);
/// Workloads above one another that are followed.
const LEVELS: usize = 5;

/// What is known of workloads.
pub(crate) struct Finder {
    kinds: Vec<Kind>,
    others: Mutex<Others>,
    discovery: Discovery,
}

/// A kind that is watched.
struct Kind {
    resource: Resource<'static>,
    wanted: watch::Sender<bool>,
    stored: Store<FoundWorkload>,
}

/// What was read of kinds that are not watched.
type Others = HashMap<Other, (Instant, Option<Arc<FoundWorkload>>)>;

/// Namespace, group and version, kind and name.
type Other = (String, String, String, String);

impl Kept for FoundWorkload {
    /// The UID of the controller.
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        Identity {
            namespace: &self.metadata.namespace,
            name: &self.metadata.name,
            uid: &self.metadata.uid,
            resource_version: &self.metadata.resource_version,
        }
    }

    fn groups(&self) -> Vec<Box<str>> {
        let owners = self.metadata.owner_references.iter();
        owners.filter(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str().into()).collect()
    }
}

impl Default for Finder {
    fn default() -> Self {
        let kind = |resource| Kind { resource, wanted: watch::Sender::new(false), stored: Store::default() };
        Self { kinds: KINDS.map(kind).into(), others: Mutex::default(), discovery: Discovery::default() }
    }
}

impl Finder {
    /// Keeps the kinds current that are wanted. Ends never.
    pub(crate) async fn follow(&self, client: &Client) {
        join_all(self.kinds.iter().map(|kind| kind.follow(client))).await;
    }

    /// Every change of a watched workload from now on, for each kind.
    pub(crate) fn subscribe(&self) -> Vec<UnboundedReceiver<Change<FoundWorkload>>> {
        self.kinds.iter().map(|kind| kind.stored.subscribe()).collect()
    }

    /// Whether changes of a workload are told of.
    pub(crate) fn watches(&self, workload: &FoundWorkload) -> bool {
        self.kind(&workload.group, &workload.kind).is_some()
    }

    /// How many workloads are watched.
    pub(crate) fn len(&self) -> usize {
        self.kinds.iter().map(|kind| kind.stored.len()).sum()
    }

    /// The workload that a reference means; `None` where there is none, or where it can't be known.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(crate) async fn find(
        &self,
        client: &Client,
        namespace: &str,
        reference: Reference<'_>,
    ) -> Result<Option<Arc<FoundWorkload>>, ReconcileError> {
        let found = match self.kind(reference.group(), reference.kind) {
            Some(kind) => kind.find(client, namespace, reference.name).await?,
            None => self.find_other(client, namespace, reference).await?,
        };
        Ok(found.filter(|found| reference.uid.is_none_or(|uid| *found.metadata.uid == *uid)))
    }

    /// The workload behind what controls a Pod: that itself, or what it is a part of.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(crate) async fn behind(
        &self,
        client: &Client,
        namespace: &str,
        controller: &OwnerReference,
    ) -> Result<Option<Arc<FoundWorkload>>, ReconcileError> {
        let mut found = self.find(client, namespace, controller.into()).await?;
        for _ in 0..LEVELS {
            let Some(above) = found.as_deref().and_then(FoundWorkload::above) else { break };
            found = self.find(client, namespace, above.into()).await?;
        }
        Ok(found)
    }

    /// The Pods of a workload, in a namespace that is wanted: those that it or its ReplicaSets own, or else those
    /// that its `scale` selects.
    ///
    /// # Errors
    /// ReplicaSets can't be listed.
    pub(crate) async fn pods(
        &self,
        pods: &Pods,
        workload: &FoundWorkload,
    ) -> Result<Vec<Arc<ObservedPod>>, ReconcileError> {
        let parts = self.replica_sets(workload).await?;
        let owned: Vec<_> = parts.iter().flat_map(|part| pods.owned_by(&part.metadata.uid)).collect();
        if !parts.is_empty() {
            return Ok(owned);
        }
        let mut owned = pods.owned_by(&workload.metadata.uid);
        if let (true, Some(selector)) = (owned.is_empty(), &workload.selector) {
            owned = pods.of_namespace(workload.namespace());
            owned.retain(|pod| selector.matches(&pod.metadata.labels));
        }
        Ok(owned)
    }

    /// The ReplicaSets of a Deployment that are not being deleted; none of another workload.
    ///
    /// # Errors
    /// ReplicaSets can't be listed.
    pub(crate) async fn replica_sets(
        &self,
        deployment: &FoundWorkload,
    ) -> Result<Vec<Arc<FoundWorkload>>, ReconcileError> {
        if !is(deployment, DEPLOYMENTS) {
            return Ok(Vec::new());
        }
        let Some(kind) = self.kind("apps", REPLICA_SETS.kind) else { return Ok(Vec::new()) };
        kind.wanted.send_replace(true);
        let listed = timeout(PATIENCE, kind.stored.synced()).await;
        listed.map_err(|_| ReconcileError::NotListed(REPLICA_SETS.kind))?;
        let mut parts = kind.stored.group(&deployment.metadata.uid);
        parts.retain(|part| part.metadata.deletion_timestamp.is_none());
        Ok(parts)
    }

    fn kind(&self, group: &str, kind: &str) -> Option<&Kind> {
        self.kinds.iter().find(|known| known.resource.kind == kind && known.group() == group)
    }

    /// A workload of a kind that is not watched.
    async fn find_other(
        &self,
        client: &Client,
        namespace: &str,
        reference: Reference<'_>,
    ) -> Result<Option<Arc<FoundWorkload>>, ReconcileError> {
        let Reference { api_version, kind, name, .. } = reference;
        let other: Other = (namespace.to_owned(), api_version.to_owned(), kind.to_owned(), name.to_owned());
        if let Some((_, found)) = self.others().get(&other).filter(|(since, _)| since.elapsed() < MEMORY) {
            return Ok(found.clone());
        }
        let found = match self.served(client, api_version, kind).await? {
            None => None,
            Some(served) => read(client, namespace, reference, &served).await?.map(Arc::new),
        };
        let mut others = self.others();
        others.retain(|_, (since, _)| since.elapsed() < MEMORY);
        others.insert(other, (Instant::now(), found.clone()));
        Ok(found)
    }

    /// How the API server serves a kind.
    async fn served(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Served>, ReconcileError> {
        let served = known(self.discovery.served(client, api_version, kind).await, api_version, kind)?;
        if served.is_none() {
            warn!(api_version, kind, "the API server does not serve this kind: its objects are not counted");
        }
        Ok(served)
    }

    // Held for single operations only, never over an await.
    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads an object with its `scale`.
async fn read(
    client: &Client,
    namespace: &str,
    reference: Reference<'_>,
    served: &Served,
) -> Result<Option<FoundWorkload>, ReconcileError> {
    let Reference { api_version, kind, name, .. } = reference;
    let namespace = if served.namespaced { namespace } else { "" };
    let path = Resource::new(api_version, &served.plural, kind).namespaced(namespace).name(name);
    let object = known(write::get(client, &path).await, api_version, kind)?;
    let scale = match served.has_scale {
        true => known(write::get(client, &path.subresource("scale")).await, api_version, kind)?,
        false => None,
    };
    // Where only the scale may be read, it names the object.
    let Some(text) = object.as_ref().or(scale.as_ref()) else { return Ok(None) };
    let unreadable = ReconcileError::of_object("workload");
    let mut found = FoundWorkload::read(reference.group(), kind, text).map_err(&unreadable)?;
    if let Some(scale) = &scale
        && let Err(error) = found.take_in_scale(scale).map_err(&unreadable)?
    {
        warn!(kind, namespace, name, %error, "the selector of a scale is passed over");
    }
    Ok(Some(found))
}

/// What was read, where it may be read.
fn known<T>(
    answer: Result<Option<T>, cluster::ApiError>,
    api_version: &str,
    kind: &str,
) -> Result<Option<T>, ReconcileError> {
    match answer {
        Err(error) if error.reason() == ErrorReason::Refused => {
            warn!(api_version, kind, %error, "a workload may not be read: its replicas are not counted");
            Ok(None)
        }
        answer => Ok(answer?),
    }
}

fn is(workload: &FoundWorkload, resource: Resource<'_>) -> bool {
    (&*workload.group, &*workload.kind) == (group(resource), resource.kind)
}

fn group(resource: Resource<'_>) -> &str {
    resource.api_version.split_once('/').map_or("", |(group, _)| group)
}

impl Kind {
    fn group(&self) -> &str {
        group(self.resource)
    }

    async fn follow(&self, client: &Client) {
        // The sender lives as long as this does.
        drop(self.wanted.subscribe().wait_for(|wanted| *wanted).await);
        follow(Api::all_with(client.clone(), &self.resource.api_resource()), Config::default(), self).await;
    }

    /// The object of this name. It is read where the kind is not listed yet, or can't be.
    async fn find(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<FoundWorkload>>, ReconcileError> {
        self.wanted.send_replace(true);
        if self.stored.is_synced() {
            return Ok(self.stored.get(&(namespace.to_owned(), name.to_owned())));
        }
        let Resource { api_version, kind, .. } = self.resource;
        let path = self.resource.namespaced(namespace).name(name);
        let object = known(write::get(client, &path).await, api_version, kind)?;
        let found = object.map(|object| self.read(&object)).transpose();
        Ok(found.map_err(ReconcileError::of_object("workload"))?.map(Arc::new))
    }

    /// An object; one of these kinds without `replicas` has one, but for Jobs, which have none at all.
    fn read(&self, json: &str) -> Result<FoundWorkload, serde_json::Error> {
        let mut found = FoundWorkload::read(self.group(), self.resource.kind, json)?;
        if self.resource != JOBS {
            found.replicas = found.replicas.or(Some(1));
        }
        Ok(found)
    }
}

impl Sink for Kind {
    fn list_begins(&self) {
        self.stored.list_begins();
    }

    fn see(&self, object: WatchedObject) {
        match readable(&object, |json| self.read(json)) {
            Some(found) => self.stored.apply(found),
            None => self.gone(&object),
        }
    }

    fn gone(&self, object: &WatchedObject) {
        self.stored.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        self.stored.list_ends();
    }
}

#[cfg(test)]
mod tests;
