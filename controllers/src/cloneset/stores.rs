//! What the controller knows beside the Pods: CloneSets, their claims and their ControllerRevisions.

use cluster::watched::WatchedObject;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use planner::workload::children::Claim;
use planner::workload::revision::StoredRevision;

use api::kinds::cloneset::{CloneSet, KIND, PLURAL};
use api::labels::CLONESET_INSTANCE_ID;

use crate::store::follow::{Readable, Sink, follow, resource};
use crate::store::{Kept, Store};

impl Kept for CloneSet {
    type Group = ();

    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn uid(&self) -> &str {
        &self.metadata.uid
    }

    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn groups(&self) -> Vec<()> {
        Vec::new()
    }
}

impl Readable for CloneSet {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

impl Kept for Claim {
    /// The UID of an owner.
    type Group = Box<str>;

    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn uid(&self) -> &str {
        &self.metadata.uid
    }

    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn groups(&self) -> Vec<Box<str>> {
        self.metadata.owner_references.iter().map(|owner| owner.uid.as_str().into()).collect()
    }
}

impl Readable for Claim {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}

/// Everything that is watched for CloneSets.
#[derive(Default)]
pub(super) struct Stores {
    pub(super) sets: Store<CloneSet>,
    pub(super) claims: Store<Claim>,
    pub(super) revisions: Revisions,
}

/// The ControllerRevisions that belong to a CloneSet, or to nobody.
#[derive(Default)]
pub(super) struct Revisions(pub(super) Store<StoredRevision>);

impl Stores {
    /// Keeps them current. Ends never.
    pub(super) async fn follow(&self, client: &Client) {
        let everywhere = |group, version, kind, plural| {
            Api::<WatchedObject>::all_with(client.clone(), &resource(group, version, kind, plural))
        };
        let with_id = Config::default().labels(CLONESET_INSTANCE_ID);
        let claims = everywhere("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
        let revisions = everywhere("apps", "v1", "ControllerRevision", "controllerrevisions");
        tokio::join!(
            follow(everywhere(api::APPS_GROUP, "v1beta1", KIND, PLURAL), Config::default(), &self.sets),
            follow(claims, with_id, &self.claims),
            follow(revisions, Config::default(), &self.revisions),
        );
    }

    /// Waits until everything was listed once.
    pub(super) async fn synced(&self) {
        tokio::join!(self.sets.synced(), self.claims.synced(), self.revisions.0.synced());
    }
}

impl Sink for Revisions {
    fn list_begins(&self) {
        self.0.list_begins();
    }

    fn see(&self, object: WatchedObject) {
        let revision = StoredRevision::read(object.json()).ok();
        let ours = |revision: &StoredRevision| {
            let owner = revision.metadata.controller();
            owner.is_none_or(|owner| owner.kind == KIND && owner.group() == api::APPS_GROUP)
        };
        match revision.filter(ours) {
            Some(revision) => self.0.apply(revision),
            None => self.gone(&object),
        }
    }

    fn gone(&self, object: &WatchedObject) {
        self.0.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        self.0.list_ends();
    }
}
