//! What several controllers read, each kind of it watched once, however many of them there are.

use std::sync::Arc;

use api::labels::SIDECARSET_NAME;
use cluster::resource::{CLAIMS, PODS, REVISIONS};
use cluster::watched::WatchedObject;
use informers::Index;
use kinds::workload::children::Claim;
use kinds::workload::revision::StoredRevision;
use kube::Client;

use super::finder::Finder;
use super::nodes::Nodes;
use super::pods::Pods;
use super::store::follow::{Readable, follow_all, readable};
use super::store::{Identity, Kept, Store, identity, named};
use crate::metrics::Metrics;

impl Kept for Claim {
    /// The UID of an owner, or a namespace and the name without the ordinal at its end ([`named`]).
    type Group = Box<str>;

    fn identity(&self) -> Identity<'_> {
        identity(&self.metadata)
    }

    fn groups(&self) -> Vec<Box<str>> {
        let owners = self.metadata.owner_references.iter().map(|owner| owner.uid.as_str().into());
        let name = self.stem().map(|stem| named(&self.metadata.namespace, stem));
        owners.chain(name).collect()
    }
}

impl Readable for Claim {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}

/// Everything that is watched for several controllers.
pub struct Stores {
    /// The Pods.
    pub pods: Arc<Pods>,
    /// Claims of CloneSets, and those that could be of StatefulSets.
    pub(crate) claims: Store<Claim>,
    pub(crate) revisions: Revisions,
    pub(crate) nodes: Nodes,
    /// Workloads of any kind.
    pub(crate) finder: Finder,
}

/// ControllerRevisions of our own kinds, and those that nobody owns.
pub(crate) struct Revisions {
    pub(crate) stored: Store<StoredRevision>,
    index: Arc<Index>,
    /// Where the revisions of SidecarSets are.
    pub(crate) install_namespace: String,
}

impl Stores {
    /// Nothing is known yet.
    pub fn new(pods: Arc<Pods>, index: Arc<Index>, install_namespace: &str) -> Self {
        let install_namespace = install_namespace.to_owned();
        Self {
            pods,
            claims: Store::default(),
            revisions: Revisions { stored: Store::default(), index, install_namespace },
            nodes: Nodes::default(),
            finder: Finder::default(),
        }
    }

    /// Keeps them current. Never returns.
    pub async fn follow(self: Arc<Self>, client: Client) {
        let of_workload = |claim: &Claim| claim.instance_id().is_some() || claim.stem().is_some();
        let claims = self.claims.sifted(|object| readable(object, Claim::read).filter(of_workload));
        let revisions = self.revisions.stored.sifted(|object| self.revisions.read(object));
        tokio::join!(
            follow_all(&client, PODS, &*self.pods),
            follow_all(&client, CLAIMS, &claims),
            follow_all(&client, REVISIONS, &revisions),
            self.nodes.follow(&client),
            self.finder.follow(&client),
        );
    }

    /// Waits until everything was listed once that is always needed.
    pub async fn synced(&self) {
        tokio::join!(self.pods.synced(), self.claims.synced(), self.revisions.stored.synced());
    }

    /// Has what they hold counted.
    pub(crate) fn count(self: &Arc<Self>, metrics: &Metrics) {
        let caches = &metrics.caches;
        caches.count("claims", CLAIMS.kind, self, |all| all.claims.len());
        caches.count("controller-revisions", REVISIONS.kind, self, |all| all.revisions.stored.len());
        caches.count("nodes", "Node", self, |all| all.nodes.len());
        caches.count("workloads", "any", self, |all| all.finder.len());
    }
}

impl Revisions {
    /// Whether some controller of ours reads it.
    fn is_needed(&self, revision: &StoredRevision) -> bool {
        let owner = revision.metadata.controller();
        owner.is_none_or(|owner| owner.group() == api::APPS_GROUP) || self.is_of_sidecar_set(revision)
    }

    /// What is kept of an object. Those of other programs need not be such as we can read.
    fn read(&self, object: &WatchedObject) -> Option<StoredRevision> {
        let mut revision =
            StoredRevision::read(object.json()).ok().filter(|revision| self.is_needed(revision))?;
        if self.is_of_sidecar_set(&revision) {
            // Admission knows these revisions too: their data is kept once for both.
            let world = self.index.world();
            let known = world.revision(&revision.metadata.name);
            if let Some(known) = known.filter(|known| known.data == revision.data) {
                revision.data = known.data.clone();
            }
        }
        Some(revision)
    }

    /// Whether it is the record of a SidecarSet.
    pub(crate) fn is_of_sidecar_set(&self, revision: &StoredRevision) -> bool {
        let metadata = &revision.metadata;
        metadata.namespace == self.install_namespace && metadata.labels.contains_key(SIDECARSET_NAME)
    }
}
