//! Finds the workload behind Pods and the Pods of a workload, for what does not manage them: budgets and spreads.
//!
//! The usual kinds are watched, each from the first time that somebody asks for it; of their objects little is kept.
//! Objects of other kinds are read, with their `scale`, and remembered for a while.
//!
//! A workload of a kind that is not served, or that may not be read, is not one that is gone. Who names it as the target
//! gets an error, and leaves everything as it is; among the owners of Pods it is passed over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::kinds::{cloneset, statefulset};
use api::meta::OwnerReference;
use cluster::discovery::{Discovery, path};
use cluster::resource::Resource;
use cluster::{ApiError, ErrorReason, write};
use futures::future::join_all;
use kinds::workload::resolved::{Reference, ResolvedWorkload};
use kube::Client;
use pod::observed::ObservedPod;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::warn;
use values::served::Served;

use super::pods::Pods;
use super::store::follow::{self, Sink};
use super::store::{Change, Identity, Kept, Store, identity};
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
/// The same for targets: a caller that reads them every few seconds has to observe changed replicas.
const MEMORY_OF_TARGETS: Duration = Duration::from_secs(5);
/// Longest time for the first list of a kind.
const TIMEOUT: Duration = Duration::from_secs(15);
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
    stored: Store<ResolvedWorkload>,
}

/// What was read of kinds that are not watched.
type Others = HashMap<Other, (Instant, Readable<Option<Arc<ResolvedWorkload>>>)>;

/// What was read, or why it can't be read.
type Readable<T> = Result<T, Arc<str>>;

/// Namespace, group and version, kind and name.
type Other = (String, String, String, String);

impl Kept for ResolvedWorkload {
    /// The UID of the controller.
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        identity(&self.metadata)
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
    /// Keeps the kinds current that are wanted. Never returns.
    pub(crate) async fn follow(&self, client: &Client) {
        join_all(self.kinds.iter().map(|kind| kind.follow(client))).await;
    }

    /// Every change of a watched workload from now on, for each kind.
    pub(crate) fn subscribe(&self) -> Vec<UnboundedReceiver<Change<ResolvedWorkload>>> {
        self.kinds.iter().map(|kind| kind.stored.subscribe()).collect()
    }

    /// Watches a kind from now on, if it is one of those that are.
    pub(crate) fn watch(&self, api_version: &str, kind: &str) {
        let (group, _) = api::group_and_version(api_version);
        if let Some(kind) = self.kind(group, kind) {
            kind.wanted.send_replace(true);
        }
    }

    /// Whether changes of a workload are reported.
    pub(crate) fn watches(&self, workload: &ResolvedWorkload) -> bool {
        self.kind(&workload.group, &workload.kind).is_some()
    }

    /// How many workloads are watched.
    pub(crate) fn len(&self) -> usize {
        self.kinds.iter().map(|kind| kind.stored.len()).sum()
    }

    /// The target that a reference means; `None` where there is none.
    ///
    /// # Errors
    /// The API server did not answer, or it can't be known whether there is one.
    pub(crate) async fn find(
        &self,
        client: &Client,
        namespace: &str,
        reference: Reference<'_>,
    ) -> Result<Option<Arc<ResolvedWorkload>>, ReconcileError> {
        let found = self.resolve(client, namespace, reference, MEMORY_OF_TARGETS).await?;
        found.map_err(ReconcileError::Unreadable)
    }

    /// The workload of a reference, if it can be read.
    async fn resolve(
        &self,
        client: &Client,
        namespace: &str,
        reference: Reference<'_>,
        memory: Duration,
    ) -> Result<Readable<Option<Arc<ResolvedWorkload>>>, ReconcileError> {
        let found = match self.kind(reference.group(), reference.kind) {
            Some(kind) => kind.find(client, namespace, reference.name).await?,
            None => self.find_other(client, namespace, reference, memory).await?,
        };
        let is_meant =
            |found: &Arc<ResolvedWorkload>| reference.uid.is_none_or(|uid| *found.metadata.uid == *uid);
        Ok(found.map(|found| found.filter(is_meant)))
    }

    /// The workload behind what controls a Pod: that itself, or what it is a part of; `None` where there is none, or
    /// where it can't be read.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(crate) async fn behind(
        &self,
        client: &Client,
        namespace: &str,
        controller: &OwnerReference,
    ) -> Result<Option<Arc<ResolvedWorkload>>, ReconcileError> {
        let mut found = self.resolve(client, namespace, controller.into(), MEMORY).await?;
        for _ in 0..LEVELS {
            let above = found.as_ref().ok().and_then(|found| found.as_deref()?.above());
            let Some(above) = above.map(Reference::from) else { break };
            found = self.resolve(client, namespace, above, MEMORY).await?;
        }
        Ok(found.unwrap_or_default())
    }

    /// The Pods of a workload, in a namespace that is wanted: those that it or its ReplicaSets own, or else those
    /// that its `scale` selects.
    ///
    /// # Errors
    /// ReplicaSets can't be listed.
    pub(crate) async fn pods(
        &self,
        pods: &Pods,
        workload: &ResolvedWorkload,
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
        deployment: &ResolvedWorkload,
    ) -> Result<Vec<Arc<ResolvedWorkload>>, ReconcileError> {
        if !is(deployment, DEPLOYMENTS) {
            return Ok(Vec::new());
        }
        let Some(kind) = self.kind("apps", REPLICA_SETS.kind) else { return Ok(Vec::new()) };
        kind.wanted.send_replace(true);
        let listed = timeout(TIMEOUT, kind.stored.synced()).await;
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
        memory: Duration,
    ) -> Result<Readable<Option<Arc<ResolvedWorkload>>>, ReconcileError> {
        let Reference { api_version, kind, name, .. } = reference;
        let other: Other = (namespace.to_owned(), api_version.to_owned(), kind.to_owned(), name.to_owned());
        if let Some((_, found)) = self.others().get(&other).filter(|(since, _)| since.elapsed() < memory) {
            return Ok(found.clone());
        }
        let found = match readable(self.discovery.served(client, api_version, kind).await)? {
            Err(problem) => Err(problem),
            Ok(served) => read(client, namespace, reference, &served).await?,
        };
        if let Err(problem) = &found {
            warn!(kind, namespace, name, %problem, "a workload can't be read");
        }
        let mut others = self.others();
        others.retain(|_, (since, _)| since.elapsed() < MEMORY);
        others.insert(other, (Instant::now(), found.clone()));
        Ok(found)
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
) -> Result<Readable<Option<Arc<ResolvedWorkload>>>, ReconcileError> {
    let Reference { kind, name, .. } = reference;
    let path = path(served, kind, namespace, name);
    let object = readable(write::get(client, &path).await)?;
    let scale = match served.has_scale {
        true => readable(write::get(client, &path.subresource("scale")).await)?,
        false => Ok(None),
    };
    let text = match (&object, &scale) {
        (Ok(None), _) => return Ok(Ok(None)),
        (Ok(Some(text)), _) => text,
        // Where only the scale may be read, it names the object.
        (Err(_), Ok(Some(text))) => text,
        (Err(_), Ok(None)) if served.has_scale => return Ok(Ok(None)),
        (Err(problem), _) => return Ok(Err(problem.clone())),
    };
    let not_understood = ReconcileError::of_object("workload");
    let mut found = ResolvedWorkload::read(reference.group(), kind, text).map_err(&not_understood)?;
    match scale {
        Ok(Some(scale)) => {
            if let Err(error) = found.take_in_scale(&scale).map_err(&not_understood)? {
                warn!(kind, namespace, name, %error, "the selector of a scale is passed over");
            }
        }
        Err(problem) if found.replicas.is_none() => found.hidden = Some(problem),
        Ok(None) | Err(_) => {}
    }
    Ok(Ok(Some(Arc::new(found))))
}

/// What the API server has answered, or why it refuses to.
fn readable<T>(answer: Result<T, ApiError>) -> Result<Readable<T>, ReconcileError> {
    match answer {
        Err(error) if error.reason() == ErrorReason::Refused => Ok(Err(error.to_string().into())),
        answer => Ok(Ok(answer?)),
    }
}

fn is(workload: &ResolvedWorkload, resource: Resource<'_>) -> bool {
    (&*workload.group, &*workload.kind) == (group(resource), resource.kind)
}

fn group(resource: Resource<'_>) -> &str {
    api::group_and_version(resource.api_version).0
}

impl Kind {
    fn group(&self) -> &str {
        group(self.resource)
    }

    async fn follow(&self, client: &Client) {
        // The sender lives as long as this does.
        drop(self.wanted.subscribe().wait_for(|wanted| *wanted).await);
        follow::follow_all(client, self.resource, &self.objects()).await;
    }

    /// Where the watch leads.
    fn objects(&self) -> impl Sink {
        self.stored.sifted(|object| follow::readable(object, |json| self.read(json)))
    }

    /// The object of this name. It is read where the kind is not listed yet, or can't be.
    async fn find(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<Readable<Option<Arc<ResolvedWorkload>>>, ReconcileError> {
        self.wanted.send_replace(true);
        if self.stored.is_synced() {
            return Ok(Ok(self.stored.get(&(namespace.to_owned(), name.to_owned()))));
        }
        let path = self.resource.namespaced(namespace).name(name);
        let object = match readable(write::get(client, &path).await)? {
            Ok(object) => object,
            Err(problem) => return Ok(Err(problem)),
        };
        let found = object.map(|object| self.read(&object)).transpose();
        Ok(Ok(found.map_err(ReconcileError::of_object("workload"))?.map(Arc::new)))
    }

    /// An object; one of these kinds without `replicas` has one, but for Jobs, which have none at all.
    fn read(&self, json: &str) -> Result<ResolvedWorkload, serde_json::Error> {
        let mut found = ResolvedWorkload::read(self.group(), self.resource.kind, json)?;
        if self.resource != JOBS {
            found.replicas = found.replicas.or(Some(1));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
