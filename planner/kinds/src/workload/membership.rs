//! Which Pods and ControllerRevisions stop to belong to a workload, and which begin to.

use api::kinds::ObjectMeta;
use api::meta::OwnerReference;

use super::action::{Action, CONTROLLER_REVISION, WriteReason};
use super::kind::Workload;
use super::object_version::ObjectVersion;
use super::owner::adoption;
use super::revision::StoredRevision;
use pod::observed::ObservedPod;
use pod::write::{OwnerChange, PodWrite};

/// A workload as the owner of others.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    owner: OwnerReference,
}

impl Membership {
    /// The workload with this `metadata`.
    pub(crate) fn of<W: Workload>(metadata: &ObjectMeta) -> Self {
        let owner = OwnerReference {
            api_version: W::API_VERSION.to_owned(),
            kind: W::KIND.to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        Self { owner }
    }

    /// The Pod belongs to it no more.
    pub(crate) fn release(&self, pod: &ObservedPod) -> Action {
        write(pod, OwnerChange::Remove(self.owner.uid.clone()), WriteReason::Release)
    }

    /// The Pod, which belongs to nobody, belongs to it from now on.
    pub(crate) fn adopt(&self, pod: &ObservedPod) -> Action {
        write(pod, OwnerChange::Add(Box::new(self.owner.clone())), WriteReason::Adopt)
    }

    /// The revisions of the history that belong to nobody belong to it from now on.
    pub(crate) fn adopt_revisions<'a>(
        &'a self,
        history: &'a [&StoredRevision],
    ) -> impl Iterator<Item = Action> + 'a {
        let orphans = history.iter().filter(|revision| revision.metadata.controller().is_none());
        orphans.map(|revision| {
            let child = ObjectVersion::object(&revision.metadata);
            let patch = adoption(&child, &revision.metadata.owner_references, &self.owner);
            Action::AdoptChild { kind: CONTROLLER_REVISION, child, patch }
        })
    }
}

fn write(pod: &ObservedPod, change: OwnerChange, reason: WriteReason) -> Action {
    Action::write_pod(pod, vec![PodWrite { owners: vec![change], ..PodWrite::default() }], reason)
}
