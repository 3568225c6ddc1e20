//! The workloads of subsets, as much of them as rules read (docs/behaviour/uniteddeployment.md#workloads).

use std::collections::BTreeMap;

use api::annotations::SUBSET_PATCH;
use api::kinds::uniteddeployment::KIND;
use api::kinds::{ObjectMeta, Time};
use api::labels::{SUBSET_NAME, UNITED_REVISION};
use api::meta::{LabelSelector, OwnerReference};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use super::kind::ChildKind;
use super::rollout::Rollout;
use crate::workload::object_version::ObjectVersion;
use pod::observed::ObservedPod;

/// A workload that a UnitedDeployment owns, or that nobody does and whose labels name a subset.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// What it is.
    pub kind: ChildKind,
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// The version of this state.
    pub resource_version: Box<str>,
    /// Name and UID of its UnitedDeployment; `None` where nobody manages it.
    pub owner: Option<(Box<str>, Box<str>)>,
    /// Its owners, where nobody manages it.
    pub others: Box<[OwnerReference]>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The subset that it serves: the one that its selector names, which never changes, or else its label; empty for none.
    pub subset: Box<str>,
    /// The patch of its subset, as it was when it was written last.
    pub patch: Box<str>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// It is being deleted.
    pub deleting: bool,
    /// Pods that it is to have.
    pub replicas: i32,
    /// How it replaces Pods of an older revision.
    pub rollout: Rollout,
    /// Pods that it has.
    pub status_replicas: i32,
    /// Of these, those that are ready.
    pub ready_replicas: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object<'a> {
    metadata: ObjectMeta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    replicas: Option<i32>,
    selector: Option<LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    replicas: Option<i32>,
    ready_replicas: Option<i32>,
}

impl Child {
    /// Reads a workload; `None` for one that is neither of a UnitedDeployment nor could be.
    ///
    /// # Errors
    /// The text is no such object.
    pub fn read(kind: ChildKind, json: &str) -> Result<Option<Self>, serde_json::Error> {
        let Object { metadata, spec, status } = serde_json::from_str(json)?;
        let owner = match metadata.controller() {
            Some(owner) if owner.kind == KIND && owner.group() == api::APPS_GROUP => {
                Some((owner.name.as_str().into(), owner.uid.as_str().into()))
            }
            None if metadata.labels.contains_key(SUBSET_NAME) => None,
            _ => return Ok(None),
        };
        let spec = spec.map_or("{}", RawValue::get);
        let rollout = Rollout::read(spec)?;
        let Spec { replicas, selector } = serde_json::from_str(spec)?;
        let selected = selector.and_then(|selector| selector.match_labels?.remove(SUBSET_NAME));
        let subset = selected.or_else(|| metadata.labels.get(SUBSET_NAME).cloned());
        let status = status.unwrap_or_default();
        Ok(Some(Self {
            kind,
            others: if owner.is_none() { metadata.owner_references.into() } else { Box::default() },
            owner,
            subset: subset.unwrap_or_default().into(),
            patch: metadata
                .annotations
                .get(SUBSET_PATCH)
                .map(|patch| patch.as_str().into())
                .unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().and_then(Time::timestamp),
            deleting: metadata.deletion_timestamp.is_some(),
            replicas: replicas.unwrap_or(1),
            rollout,
            status_replicas: status.replicas.unwrap_or(0),
            ready_replicas: status.ready_replicas.unwrap_or(0),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            labels: metadata.labels,
        }))
    }

    /// The revision of the UnitedDeployment that it was written at.
    pub fn revision(&self) -> &str {
        self.labels.get(UNITED_REVISION).map(String::as_str).unwrap_or_default()
    }

    /// Whether the UnitedDeployment with this UID manages it.
    pub fn is_of(&self, uid: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| *owner.1 == *uid)
    }

    /// Whether the Pod is one of its own. Those of a Deployment belong to its ReplicaSets, which are named after it.
    pub fn runs(&self, pod: &ObservedPod) -> bool {
        let Some(owner) = pod.controller().filter(|_| *pod.metadata.namespace == *self.namespace) else {
            return false;
        };
        if self.kind != ChildKind::Deployment {
            return *owner.uid == *self.uid;
        }
        let hash = owner.name.strip_prefix(&*self.name).and_then(|rest| rest.strip_prefix('-'));
        owner.kind == "ReplicaSet" && hash.is_some_and(|hash| !hash.contains('-'))
    }

    /// The state that was observed.
    pub fn observed(&self) -> ObjectVersion {
        ObjectVersion {
            name: self.name.to_string(),
            uid: self.uid.to_string(),
            resource_version: self.resource_version.to_string(),
        }
    }
}
