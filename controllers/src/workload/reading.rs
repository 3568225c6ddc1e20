//! Reads what is not known for certain: an answer that did not come leaves open what happened.

use api::labels::CLONESET_INSTANCE_ID;
use cluster::resource::CLAIMS;
use cluster::watched::Key;
use kinds::workload::children::Claim;
use kinds::workload::kind::Workload;
use kinds::workload::object_version::ObjectVersion;
use pod::observed::ObservedPod;

use super::controller::{Controller, Work, key_of, resource};
use super::unconfirmed::Unread;
use crate::ReconcileError;

/// What has the name of an object that is to be made.
pub(super) enum NameOwner {
    /// Nothing any more.
    Nobody,
    /// An object of the workload, which is known now.
    Ours,
    /// Something else, or a claim that is being deleted.
    Other,
}

impl<W: Workload> Controller<W> {
    /// Reads each object of which it is not known what became of the last write.
    pub(super) async fn refresh(&self, workload: &W) -> Result<(), ReconcileError> {
        let read = async |(resource, key): Unread| {
            if resource == CLAIMS {
                return self.stores.claims.read(&self.client, &CLAIMS, &key).await.map(drop);
            }
            self.read_pod(workload, &key).await.map(drop)
        };
        self.unconfirmed.confirm(&key_of(workload), read).await
    }

    /// The workload is still there, and is not being deleted: only then may it adopt anything. Watches may report what it let
    /// be removed before they show that it is being deleted.
    pub(super) async fn still_exists(&self, workload: &W) -> Result<bool, ReconcileError> {
        let (key, uid) = (key_of(workload), &workload.metadata().uid);
        let now = self.workloads.read(&self.client, &resource::<W>(), &key).await?;
        let now = now.as_ref().map(|stored| stored.0.metadata());
        Ok(now.is_some_and(|now| now.uid == *uid && now.deletion_timestamp.is_none()))
    }

    /// What has the name of this Pod, which is taken in if it is the workload's.
    pub(super) async fn holder_of_pod(&self, workload: &W, name: &str) -> Result<NameOwner, ReconcileError> {
        let key = (workload.metadata().namespace.clone(), name.to_owned());
        let Some(pod) = self.read_pod(workload, &key).await? else { return Ok(NameOwner::Nobody) };
        let owners = pod.metadata.owner_references;
        let ours = owners.iter().any(|owner| owner.uid == workload.metadata().uid);
        Ok(if ours { NameOwner::Ours } else { NameOwner::Other })
    }

    /// What has the name of this claim, which is taken in if it is the workload's.
    pub(super) async fn holder_of_claim(
        &self,
        workload: &W,
        name: &str,
    ) -> Result<NameOwner, ReconcileError> {
        let key = (workload.metadata().namespace.clone(), name.to_owned());
        let claim = self.stores.claims.read(&self.client, &CLAIMS, &key).await?;
        let Some(Claim { metadata, .. }) = claim.as_deref() else { return Ok(NameOwner::Nobody) };
        let owned = metadata.owner_references.iter().any(|owner| owner.uid == workload.metadata().uid);
        let ours = owned || W::HAS_ORDINALS;
        Ok(if ours && metadata.deletion_timestamp.is_none() { NameOwner::Ours } else { NameOwner::Other })
    }

    /// Whether there is a Pod for this claim after all: a list that is in progress, or was cut off, may have
    /// hidden it.
    pub(super) async fn has_pod(
        &self,
        work: &Work<'_, W>,
        claim: &ObjectVersion,
    ) -> Result<bool, ReconcileError> {
        let known = self.stores.claims.get(&work.key_of(&claim.name));
        let name = known.and_then(|claim| work.workload.pod_of_claim(&claim));
        let Some(name) = name else { return Ok(false) };
        Ok(matches!(self.holder_of_pod(work.workload, &name).await?, NameOwner::Ours))
    }

    /// Reads a Pod and takes it in: one that is there was not refused.
    async fn read_pod(&self, workload: &W, key: &Key) -> Result<Option<ObservedPod>, ReconcileError> {
        let pod = self.stores.pods.read(&self.client, key).await?;
        if let Some(id) = pod.as_ref().and_then(|pod| pod.label(CLONESET_INSTANCE_ID)) {
            self.memory(workload, |memory| memory.refused.remove(id));
        }
        Ok(pod)
    }
}
