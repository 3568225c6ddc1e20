//! Workloads by group, kind and name. Versions do not matter
//! (docs/behaviour/api-and-registration.md#objects-of-older-releases).

use std::borrow::Cow;

use api::kinds::podunavailablebudget;
use api::kinds::shared::TargetReference;
use api::labels::POD_TEMPLATE_HASH;
use api::meta::OwnerReference;

use pod::observed::ObservedPod;
use values::selector::Labels;

/// A workload of a namespace that is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Workload<'a> {
    /// The API group; empty for the core group.
    pub group: Cow<'a, str>,
    /// The kind.
    pub kind: Cow<'a, str>,
    /// The name.
    pub name: Cow<'a, str>,
}

impl<'a> Workload<'a> {
    /// The workload of this group, kind and name.
    pub fn new(group: &'a str, kind: &'a str, name: &'a str) -> Self {
        Self { group: group.into(), kind: kind.into(), name: name.into() }
    }

    /// The workload of this API version, kind and name.
    pub fn referenced(api_version: &'a str, kind: &'a str, name: &'a str) -> Self {
        Self::new(api::group_and_version(api_version).0, kind, name)
    }

    /// Whether it is of this group and kind.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        (&*self.group, &*self.kind) == (group, kind)
    }

    /// The Deployment of a ReplicaSet, known by a Pod with these labels: its name is what precedes the hash
    /// with which both the ReplicaSet's name ends and the Pod is labelled. So no ReplicaSet has to be known, not
    /// even one that was made a moment ago.
    pub fn deployment(&self, labels: &(impl Labels + ?Sized)) -> Option<Workload<'static>> {
        let hash = labels
            .label(POD_TEMPLATE_HASH)
            .filter(|hash| !hash.is_empty() && self.is("apps", "ReplicaSet"))?;
        let name = self.name.strip_suffix(hash)?.strip_suffix('-')?;
        Some(Workload { group: "apps".into(), kind: "Deployment".into(), name: name.to_owned().into() })
    }

    /// The workload behind a Pod's controller: of a ReplicaSet that a Deployment has made it is the Deployment.
    pub fn behind(group: &'a str, kind: &'a str, name: &'a str, labels: &(impl Labels + ?Sized)) -> Self {
        let direct = Self::new(group, kind, name);
        direct.deployment(labels).unwrap_or(direct)
    }

    /// The workload behind a Pod.
    pub fn of_pod(pod: &'a ObservedPod) -> Option<Self> {
        let owner = pod.controller()?;
        Some(Self::behind(owner.group(), &owner.kind, &owner.name, &pod.metadata.labels))
    }

    /// The same, with texts of its own.
    pub fn into_owned(self) -> Workload<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Workload { group: owned(self.group), kind: owned(self.kind), name: owned(self.name) }
    }
}

impl<'a> From<&'a OwnerReference> for Workload<'a> {
    fn from(owner: &'a OwnerReference) -> Self {
        Self::new(owner.group(), &owner.kind, &owner.name)
    }
}

impl<'a> From<&'a podunavailablebudget::TargetReference> for Workload<'a> {
    fn from(target: &'a podunavailablebudget::TargetReference) -> Self {
        Self::referenced(&target.api_version, &target.kind, &target.name)
    }
}

impl<'a> From<&'a TargetReference> for Workload<'a> {
    fn from(target: &'a TargetReference) -> Self {
        Self::referenced(&target.api_version, &target.kind, &target.name)
    }
}
