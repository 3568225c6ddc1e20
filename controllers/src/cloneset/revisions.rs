//! Writes ControllerRevisions as a plan says.

use cluster::client::is_outdated;
use cluster::write::{self, PatchKind, deletion};
use kube::Client;
use planner::workload::revision::{NewRevision, RevisionStep, StoredRevision};
use planner::workload::seen::Seen;

use crate::ReconcileError;
use crate::store::Store;

/// Names that are tried when others have them. Each try that fails is due to a hash of 32 bits.
const NAMES: usize = 5;

/// The ControllerRevisions of one namespace.
pub(super) struct Revisions<'a> {
    pub(super) client: &'a Client,
    pub(super) stored: &'a Store<StoredRevision>,
    pub(super) namespace: &'a str,
}

impl Revisions<'_> {
    /// Writes it and takes it in; gives the count of collisions where there were any.
    ///
    /// # Errors
    /// The API server refuses or can't be reached.
    pub(super) async fn write(&self, step: RevisionStep) -> Result<Option<i32>, ReconcileError> {
        match step {
            RevisionStep::Create(revision) => self.create(*revision).await,
            RevisionStep::Patch { revision, patch } => {
                self.patch(&revision.name, patch).await?;
                Ok(None)
            }
        }
    }

    async fn create(&self, mut revision: NewRevision) -> Result<Option<i32>, ReconcileError> {
        let mut tries = 0;
        loop {
            match write::create(self.client, &self.collection(), revision.to_json()).await {
                Ok(text) => {
                    self.stored.written(StoredRevision::read(&text)?);
                    break;
                }
                Err(kube::Error::Api(status)) if status.code == 409 && tries < NAMES => tries += 1,
                Err(error) => return Err(error.into()),
            }
            let path = format!("{}/{}", self.collection(), revision.name);
            // Deleted meanwhile: the name is free.
            let Some(text) = write::get(self.client, &path).await? else { continue };
            let existing = StoredRevision::read(&text)?;
            let Some(next) = revision.after_collision(&existing) else {
                self.stored.written(existing);
                break;
            };
            revision = next;
        }
        Ok(Some(revision.collision_count))
    }

    /// Sends a merge patch to a revision.
    pub(super) async fn patch(&self, name: &str, patch: String) -> Result<(), ReconcileError> {
        let path = format!("{}/{name}", self.collection());
        let text = write::patch(self.client, &path, PatchKind::Merge, patch).await?;
        self.take_in(&text)
    }

    /// Takes in a revision as the API server answered with it.
    pub(super) fn take_in(&self, text: &str) -> Result<(), ReconcileError> {
        self.stored.written(StoredRevision::read(text)?);
        Ok(())
    }

    /// Deletes a revision in the state that was seen; one that has changed is left.
    pub(super) async fn delete(&self, seen: &Seen) -> Result<(), ReconcileError> {
        let path = format!("{}/{}", self.collection(), seen.name);
        match write::delete(self.client, &path, deletion(&seen.uid, Some(&seen.resource_version))).await {
            Err(error) if !is_outdated(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn collection(&self) -> String {
        format!("/apis/apps/v1/namespaces/{}/controllerrevisions", self.namespace)
    }
}
