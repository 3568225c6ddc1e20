//! Writes ControllerRevisions as a plan says, for whatever owner.

use cluster::resource::{Path, REVISIONS};
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use kinds::workload::object_version::ObjectVersion;
use kinds::workload::revision::{NewRevision, RevisionStep, StoredRevision};
use kube::Client;

use super::store::Store;
use crate::ReconcileError;

/// Names that are tried when others have them. Each try that fails is due to a hash of 32 bits.
const NAMES: usize = 5;

/// Writes the ControllerRevisions of one namespace.
pub(crate) struct RevisionWriter<'a> {
    pub(crate) client: &'a Client,
    pub(crate) stored: &'a Store<StoredRevision>,
    pub(crate) namespace: &'a str,
}

impl RevisionWriter<'_> {
    /// Writes it and takes it in; gives the name of a revision that was created and its count of collisions.
    ///
    /// # Errors
    /// The API server refuses or can't be reached.
    pub(crate) async fn write(&self, step: RevisionStep) -> Result<Option<(String, i32)>, ReconcileError> {
        match step {
            RevisionStep::Create(revision) => self.create(*revision).await.map(Some),
            RevisionStep::Patch { revision, patch } => {
                let path = self.collection().name(&revision.name);
                self.take_in(&write::patch(self.client, &path, PatchKind::Merge, patch).await?)?;
                Ok(None)
            }
        }
    }

    async fn create(&self, mut revision: NewRevision) -> Result<(String, i32), ReconcileError> {
        let mut tries = 0;
        loop {
            match write::create(self.client, &self.collection(), revision.to_json()).await {
                Ok(text) => {
                    self.take_in(&text)?;
                    break;
                }
                Err(error) if error.is_conflict() && tries < NAMES => tries += 1,
                Err(error) => return Err(error.into()),
            }
            let found = write::get(self.client, &self.collection().name(&revision.name)).await?;
            // Deleted meanwhile: the name is free.
            let Some(text) = found else { continue };
            let existing = read(&text)?;
            let Some(next) = revision.after_collision(&existing) else {
                self.stored.written(existing);
                break;
            };
            revision = next;
        }
        Ok((revision.name, revision.collision_count))
    }

    /// Takes in a revision that a write returned.
    pub(crate) fn take_in(&self, text: &str) -> Result<(), ReconcileError> {
        self.stored.written(read(text)?);
        Ok(())
    }

    /// Deletes a revision in the state that was observed; one that has changed is left.
    pub(crate) async fn delete(&self, observed: &ObjectVersion) -> Result<(), ReconcileError> {
        let path = self.collection().name(&observed.name);
        let options = deletion(&observed.uid, Some(&observed.resource_version));
        unless_outdated(write::delete(self.client, &path, options).await)?;
        Ok(())
    }

    fn collection(&self) -> Path {
        REVISIONS.namespaced(self.namespace)
    }
}

fn read(text: &str) -> Result<StoredRevision, ReconcileError> {
    StoredRevision::read(text).map_err(ReconcileError::of_object("ControllerRevision"))
}
