//! Writes ControllerRevisions as a plan says.

use cluster::Retry;
use cluster::resource::{Path, REVISIONS};
use cluster::write::{self, PatchKind, deletion};
use kube::Client;
use planner::kinds::cloneset::{RevisionStep, Seen};
use planner::workload::revision::workload::{NewRevision, StoredRevision};

use crate::ReconcileError;
use crate::workload::store::Store;

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
            RevisionStep::Bump { revision, patch } => {
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
                    self.stored.written(read(&text)?);
                    break;
                }
                Err(error) if error.is_conflict() && tries < NAMES => tries += 1,
                Err(error) => return Err(error.into()),
            }
            let path = self.collection().name(&revision.name);
            // Deleted meanwhile: the name is free.
            let Some(text) = write::get(self.client, &path).await? else { continue };
            let existing = read(&text)?;
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
        let path = self.collection().name(name);
        let text = write::patch(self.client, &path, PatchKind::Merge, patch).await?;
        self.stored.written(read(&text)?);
        Ok(())
    }

    /// Deletes a revision in the state that was seen; one that has changed is left.
    pub(super) async fn delete(&self, seen: &Seen) -> Result<(), ReconcileError> {
        let path = self.collection().name(&seen.name);
        match write::delete(self.client, &path, deletion(&seen.uid, Some(&seen.resource_version))).await {
            Err(error) if error.retry() != Retry::Now => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn collection(&self) -> Path {
        REVISIONS.namespaced(self.namespace)
    }
}

fn read(text: &str) -> Result<StoredRevision, ReconcileError> {
    StoredRevision::read(text).map_err(ReconcileError::of_object("ControllerRevision"))
}
