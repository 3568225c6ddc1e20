//! The ControllerRevisions of SidecarSets, written as `kinds::sidecarset::history` decides.

use std::time::Duration;

use api::labels::SIDECARSET_NAME;
use kinds::sidecarset::history::Registration;
use kinds::sidecarset::rollout::RolloutSet;
use kinds::workload::revision::StoredRevision;

use super::Controller;
use crate::ReconcileError;
use crate::workload::controller_revisions::Group;
use crate::workload::revisions::RevisionWriter;
use crate::workload::store::Change;

/// The SidecarSet of a revision that is gone: it may be the current one.
pub(super) fn lost(change: &Change<StoredRevision>) -> Option<(Box<str>, Duration)> {
    let gone = change.old.as_ref().filter(|_| change.new.is_none())?;
    let set = gone.metadata.labels.get(SIDECARSET_NAME)?;
    Some((set.as_str().into(), Duration::ZERO))
}

impl Controller {
    /// The revisions of a SidecarSet.
    pub(super) fn revisions_of(&self, set: &str) -> Vec<StoredRevision> {
        let revisions = &self.stores.revisions;
        let labelled = revisions.stored.group(&Group::SidecarSet(set.into()));
        let ours = labelled.iter().filter(|revision| revisions.is_of_sidecar_set(revision));
        ours.map(|revision| (**revision).clone()).collect()
    }

    /// Writes what is planned; gives the name of the current revision and the count of collisions.
    pub(super) async fn write_revisions(
        &self,
        set: &RolloutSet,
        registration: Option<Registration>,
    ) -> Result<(String, i32), ReconcileError> {
        let collisions = set.status.collision_count.unwrap_or(0);
        let Some(Registration { latest, step, obsolete }) = registration else {
            return Ok((set.status.latest_revision.clone(), collisions));
        };
        let revisions = &self.stores.revisions;
        let (stored, namespace) = (&revisions.stored, revisions.install_namespace.as_str());
        let writer = RevisionWriter { client: &self.client, stored, namespace };
        let created = match step {
            Some(step) => writer.write(step).await?,
            None => None,
        };
        for revision in &obsolete {
            writer.delete(revision).await?;
        }
        Ok(created.unwrap_or((latest, collisions)))
    }
}
