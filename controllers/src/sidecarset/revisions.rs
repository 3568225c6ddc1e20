//! The ControllerRevisions of SidecarSets: known by a watch, written as `planner::kinds::sidecarset::history`
//! decides (spec 20 §5).

use std::sync::Arc;
use std::time::Duration;

use api::labels::SIDECARSET_NAME;
use cluster::Index;
use cluster::list::List;
use cluster::watched::WatchedObject;
use cluster::write::{self, PatchKind};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use planner::kinds::sidecarset::history::{self, Registration};
use planner::kinds::sidecarset::rollout::RolloutSet;
use planner::pod::observed::ObservedPod;
use planner::text::canonical::CanonicalError;
use planner::workload::revision::{NewRevision, RevisionStep, StoredRevision};
use planner::workload::seen::Seen;

use crate::ReconcileError;
use crate::controller_revisions::Group;
use crate::store::follow::{Sink, follow, readable, resource};
use crate::store::{Change, Kept, Store};

/// Names that are tried when others have them. Each try that fails is due to a hash of 32 bits.
const NAMES: usize = 5;

/// The SidecarSet of a revision that is gone: it may be the current one.
pub(super) fn lost(change: &Change<StoredRevision>) -> Option<(Box<str>, Duration)> {
    let gone = change.old.as_ref().filter(|_| change.new.is_none())?;
    let set = gone.metadata.labels.get(SIDECARSET_NAME)?;
    Some((set.as_str().into(), Duration::ZERO))
}

/// The ControllerRevisions of all SidecarSets.
pub(super) struct Revisions {
    pub(super) stored: Store<StoredRevision>,
    client: Client,
    namespace: String,
    index: Arc<Index>,
}

/// Admission knows the revisions too: their data is kept once for both.
impl Sink for Revisions {
    fn list_begins(&self) {
        self.stored.list_begins();
    }

    fn see(&self, object: WatchedObject) {
        let Some(mut revision) = readable(&object, StoredRevision::read) else { return self.gone(&object) };
        let world = self.index.world();
        let known = world.revision(&revision.metadata.name).filter(|known| known.data == revision.data);
        if let Some(known) = known {
            revision.data = known.data.clone();
        }
        self.stored.apply(revision);
    }

    fn gone(&self, object: &WatchedObject) {
        self.stored.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        self.stored.list_ends();
    }
}

impl Revisions {
    pub(super) fn new(client: Client, namespace: &str, index: Arc<Index>) -> Self {
        Self { stored: Store::default(), client, namespace: namespace.to_owned(), index }
    }

    /// Keeps them current. Ends never.
    pub(super) async fn follow(&self) {
        let kind = resource("apps", "v1", "ControllerRevision", "controllerrevisions");
        let api: Api<WatchedObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        follow(api, Config::default().labels(SIDECARSET_NAME), self).await;
    }

    /// Those of a SidecarSet.
    pub(super) fn of(&self, set: &str) -> Vec<StoredRevision> {
        self.stored
            .group(&Group::SidecarSet(set.into()))
            .iter()
            .map(|revision| (**revision).clone())
            .collect()
    }

    /// What to write so that the SidecarSet has its revision.
    pub(super) fn register(
        &self,
        set: &RolloutSet,
        stored: &[StoredRevision],
        pods: &[Arc<ObservedPod>],
    ) -> Result<Option<Registration>, CanonicalError> {
        history::plan(set, stored, pods, &self.namespace)
    }

    /// Writes it; gives the name of the current revision and the count of collisions.
    pub(super) async fn write(
        &self,
        set: &RolloutSet,
        registration: Option<Registration>,
    ) -> Result<(String, i32), ReconcileError> {
        let collisions = set.status.collision_count.unwrap_or(0);
        let Some(Registration { latest, step, obsolete }) = registration else {
            return Ok((set.status.latest_revision.clone(), collisions));
        };
        let current = match step {
            Some(RevisionStep::Create(revision)) => self.create(*revision).await?,
            Some(RevisionStep::Patch { revision, patch }) => {
                self.patch(&revision.name, patch).await?;
                (latest, collisions)
            }
            None => (latest, collisions),
        };
        for revision in &obsolete {
            self.delete(revision).await?;
        }
        Ok(current)
    }

    async fn create(&self, mut revision: NewRevision) -> Result<(String, i32), ReconcileError> {
        let mut tries = 0;
        loop {
            match write::create(&self.client, &self.collection(), revision.to_json()).await {
                Ok(text) => {
                    self.stored.written(StoredRevision::read(&text)?);
                    return Ok((revision.name, revision.collision_count));
                }
                Err(kube::Error::Api(status)) if status.code == 409 && tries < NAMES => tries += 1,
                Err(error) => return Err(error.into()),
            }
            // Deleted meanwhile: the name is free.
            let Some(existing) = self.find(&revision.name).await? else { continue };
            match revision.after_collision(&existing) {
                Some(next) => revision = next,
                None => return Ok((revision.name, revision.collision_count)),
            }
        }
    }

    /// The revision of this name, whatever its labels. By a list, as no right to get one is needed otherwise.
    async fn find(&self, name: &str) -> Result<Option<StoredRevision>, ReconcileError> {
        let path = format!("{}?fieldSelector=metadata.name%3D{name}", self.collection());
        let Some(text) = write::get(&self.client, &path).await? else { return Ok(None) };
        Ok(serde_json::from_str::<List<StoredRevision>>(&text)?.items.into_iter().next())
    }

    async fn patch(&self, name: &str, patch: String) -> Result<(), ReconcileError> {
        let path = format!("{}/{name}", self.collection());
        let text = write::patch(&self.client, &path, PatchKind::Merge, patch).await?;
        self.stored.written(StoredRevision::read(&text)?);
        Ok(())
    }

    async fn delete(&self, revision: &Seen) -> Result<(), ReconcileError> {
        let path = format!("{}/{}", self.collection(), revision.name);
        let options = write::deletion(&revision.uid, Some(&revision.resource_version));
        match write::delete(&self.client, &path, options).await {
            // In another state by now, or gone, of which the watch will tell.
            Err(error) if cluster::client::is_outdated(&error) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    fn collection(&self) -> String {
        format!("/apis/apps/v1/namespaces/{}/controllerrevisions", self.namespace)
    }
}
