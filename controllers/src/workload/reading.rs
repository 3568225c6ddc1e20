//! Reads again what is not known for certain: an answer that did not come leaves open what happened.

use cluster::resource::{CLAIMS, PODS, Resource};
use cluster::watched::Key;
use cluster::write;
use futures::{StreamExt, stream};
use kinds::workload::children::Claim;
use kinds::workload::kind::Workload;
use kinds::workload::seen::Seen;
use kube::Client;
use pod::observed::ObservedPod;

use api::kinds::ObjectMeta;
use api::labels::CLONESET_INSTANCE_ID;
use serde::Deserialize;

use super::controller::{Controller, Work, resource};
use crate::ReconcileError;

/// Objects that are read at a time.
const CONCURRENCY: usize = 8;

/// What has the name of an object that is to be made.
pub(super) enum Holder {
    /// Nothing any more.
    Nobody,
    /// An object of the workload, which is known now.
    Ours,
    /// Something else, or a claim that goes.
    Other,
}

/// Whether an object is still the one that is known, and is not being deleted: only then may it adopt anything. Watches
/// may tell of what an object let go before they tell that it is being deleted.
pub(crate) async fn still_exists(
    client: &Client,
    resource: &Resource<'static>,
    known: &ObjectMeta,
) -> Result<bool, ReconcileError> {
    #[derive(Deserialize)]
    struct Head {
        metadata: ObjectMeta,
    }
    let path = resource.namespaced(&known.namespace).name(&known.name);
    let Some(text) = write::get(client, &path).await? else { return Ok(false) };
    let Head { metadata } = serde_json::from_str(&text).map_err(ReconcileError::of_object(resource.kind))?;
    Ok(metadata.uid == known.uid && metadata.deletion_timestamp.is_none())
}

impl<W: Workload> Controller<W> {
    /// Reads each object of which it is not known what became of the last write.
    pub(super) async fn look_again(&self, workload: &W) -> Result<(), ReconcileError> {
        let uncertain = self.memory(workload, |memory| memory.uncertain.clone());
        let readings = uncertain.into_iter().map(async |(resource, name)| {
            self.read(workload, resource, &name).await?;
            self.memory(workload, |memory| memory.uncertain.remove(&(resource, name)));
            Ok(())
        });
        // Built before they run: none waits for another.
        let readings: Vec<_> = readings.collect();
        stream::iter(readings)
            .buffer_unordered(CONCURRENCY)
            .fold(Ok(()), async |all, one| if all.is_err() { all } else { one })
            .await
    }

    /// The workload is still there: see [`still_exists`].
    pub(super) async fn still_exists(&self, workload: &W) -> Result<bool, ReconcileError> {
        still_exists(&self.client, &resource::<W>(), workload.metadata()).await
    }

    /// What has the name of this Pod, which is taken in if it is the workload's.
    pub(super) async fn holder_of_pod(&self, workload: &W, name: &str) -> Result<Holder, ReconcileError> {
        let Some(text) = self.read(workload, PODS, name).await? else { return Ok(Holder::Nobody) };
        let owners =
            ObservedPod::read(&text).map_err(ReconcileError::of_object("Pod"))?.metadata.owner_references;
        let ours = owners.iter().any(|owner| owner.uid == workload.metadata().uid);
        Ok(if ours { Holder::Ours } else { Holder::Other })
    }

    /// What has the name of this claim, which is taken in if it is the workload's.
    pub(super) async fn holder_of_claim(&self, workload: &W, name: &str) -> Result<Holder, ReconcileError> {
        let Some(text) = self.read(workload, CLAIMS, name).await? else { return Ok(Holder::Nobody) };
        let Claim { metadata, .. } =
            Claim::read(&text).map_err(ReconcileError::of_object("PersistentVolumeClaim"))?;
        let owned = metadata.owner_references.iter().any(|owner| owner.uid == workload.metadata().uid);
        let ours = owned || W::HAS_ORDINALS;
        Ok(if ours && metadata.deletion_timestamp.is_none() { Holder::Ours } else { Holder::Other })
    }

    /// Whether there is a Pod for this claim after all: a list that is under way, or was cut off, may have
    /// hidden it.
    pub(super) async fn has_pod(&self, work: &Work<'_, W>, claim: &Seen) -> Result<bool, ReconcileError> {
        let known = self.stores.claims.get(&work.key_of(&claim.name));
        let name = known.and_then(|claim| work.workload.pod_of_claim(&claim));
        let Some(name) = name else { return Ok(false) };
        Ok(matches!(self.holder_of_pod(work.workload, &name).await?, Holder::Ours))
    }

    /// Reads an object and takes it in; takes in as well that there is none.
    async fn read(
        &self,
        workload: &W,
        resource: Resource<'_>,
        name: &str,
    ) -> Result<Option<String>, ReconcileError> {
        let key: Key = (workload.metadata().namespace.clone(), name.to_owned());
        let path = resource.namespaced(&key.0).name(name);
        // The versions before: what comes into being meanwhile is younger.
        let pod = self.stores.pods.get(&key).filter(|_| resource == PODS);
        let claim = self.stores.claims.get(&key).filter(|_| resource == CLAIMS);
        let text = write::get(&self.client, &path).await?;
        match &text {
            Some(text) if resource == PODS => {
                let pod = self.stores.pods.written(text)?;
                if let Some(id) = pod.label(CLONESET_INSTANCE_ID) {
                    self.memory(workload, |memory| memory.refused.remove(id));
                }
            }
            Some(text) => self.take_in_claim(text),
            None => {
                if let Some(pod) = pod {
                    self.stores.pods.deleted(&key, &pod.metadata.resource_version);
                }
                if let Some(claim) = claim {
                    self.stores.claims.deleted(&key, &claim.metadata.resource_version);
                }
            }
        }
        Ok(text)
    }
}
