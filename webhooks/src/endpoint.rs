//! The admission webhooks that this server answers, and their paths. A new kind's webhooks are a row of
//! [`Endpoint::ALL`].

use api::features::{Feature, FeatureGates};
use kinds::deletion_protection::Kind;

use crate::kinds::resource::{Defaulting, ValidatedAt, Validation};
use crate::kinds::{
    advancedcronjob, broadcastjob, cloneset, containerrecreaterequest, daemonset, ephemeraljob,
    imagelistpulljob, imagepulljob, nodeimage, persistentpodstate, podprobemarker, podunavailablebudget,
    resourcedistribution, sidecarset, statefulset, uniteddeployment, workloadspread,
};

/// An admission webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Mutation of Pods at their creation.
    MutatePod,
    /// Validation of requests that delete, evict or change Pods.
    ValidatePod,
    /// Mutation of Pods whose containers end in an order.
    MutateExitPriority,
    /// Validation of that order.
    ValidateExitPriority,
    /// Defaulting of a custom resource.
    Mutate(&'static Defaulting),
    /// Validation of a custom resource that has no deletion protection; it may complete the object too.
    Validate(&'static Validation),
    /// Deletion protection of one kind. Where the kind has a [`Validation`], its creates and updates are
    /// validated too; those of the other Kruise workloads are refused.
    Protect(Kind),
}

/// The custom resources that are validated by the webhook of their deletion protection.
const PROTECTED: &[&Validation] =
    &[&cloneset::VALIDATION, &statefulset::VALIDATION, &uniteddeployment::VALIDATION];

impl Endpoint {
    /// Every webhook.
    pub const ALL: &'static [Self] = &[
        Self::MutatePod,
        Self::ValidatePod,
        Self::MutateExitPriority,
        Self::ValidateExitPriority,
        Self::Mutate(&sidecarset::DEFAULTING),
        Self::Validate(&sidecarset::VALIDATION),
        Self::Mutate(&cloneset::DEFAULTING),
        Self::Mutate(&statefulset::DEFAULTING),
        Self::Mutate(&uniteddeployment::DEFAULTING),
        Self::Mutate(&broadcastjob::DEFAULTING),
        Self::Validate(&broadcastjob::VALIDATION),
        Self::Mutate(&daemonset::DEFAULTING),
        Self::Validate(&daemonset::VALIDATION),
        Self::Mutate(&advancedcronjob::DEFAULTING),
        Self::Validate(&advancedcronjob::VALIDATION),
        Self::Validate(&resourcedistribution::VALIDATION),
        Self::Validate(&podunavailablebudget::VALIDATION),
        Self::Validate(&workloadspread::VALIDATION),
        Self::Validate(&containerrecreaterequest::ADMISSION),
        Self::Validate(&ephemeraljob::VALIDATION),
        Self::Mutate(&nodeimage::DEFAULTING),
        Self::Validate(&nodeimage::VALIDATION),
        Self::Mutate(&imagepulljob::DEFAULTING),
        Self::Validate(&imagepulljob::VALIDATION),
        Self::Mutate(&imagelistpulljob::DEFAULTING),
        Self::Validate(&imagelistpulljob::VALIDATION),
        Self::Validate(&podprobemarker::VALIDATION),
        Self::Validate(&persistentpodstate::VALIDATION),
        Self::Protect(Kind::Namespace),
        Self::Protect(Kind::CustomResourceDefinition),
        Self::Protect(Kind::Service),
        Self::Protect(Kind::Ingress),
        Self::Protect(Kind::Deployment),
        Self::Protect(Kind::ReplicaSet),
        Self::Protect(Kind::StatefulSet),
        Self::Protect(Kind::CloneSet),
        Self::Protect(Kind::AdvancedStatefulSet),
        Self::Protect(Kind::UnitedDeployment),
    ];

    /// The path under which it is registered.
    pub fn path(self) -> &'static str {
        match self {
            Self::MutatePod => "/mutate-pod",
            Self::ValidatePod => "/validate-pod",
            Self::MutateExitPriority => "/mutate-pod-exit-priority",
            Self::ValidateExitPriority => "/validate-pod-exit-priority",
            Self::Mutate(defaulting) => defaulting.path,
            Self::Validate(validation) => match validation.at {
                ValidatedAt::Path { path, .. } => path,
                ValidatedAt::Protection(kind) => Self::Protect(kind).path(),
            },
            Self::Protect(Kind::Namespace) => "/validate-namespace",
            Self::Protect(Kind::CustomResourceDefinition) => "/validate-customresourcedefinition",
            Self::Protect(Kind::Service) => "/validate-service",
            Self::Protect(Kind::Ingress) => "/validate-ingress",
            Self::Protect(Kind::Deployment) => "/validate-apps-deployment",
            Self::Protect(Kind::ReplicaSet) => "/validate-apps-replicaset",
            Self::Protect(Kind::StatefulSet) => "/validate-apps-statefulset",
            Self::Protect(Kind::CloneSet) => "/validate-apps-kruise-io-cloneset",
            Self::Protect(Kind::AdvancedStatefulSet) => "/validate-apps-kruise-io-statefulset",
            Self::Protect(Kind::UnitedDeployment) => "/validate-apps-kruise-io-uniteddeployment",
        }
    }

    /// What is asked about creates and updates of a kind that is protected from deletion.
    pub(crate) fn validation_of(kind: Kind) -> Option<&'static Validation> {
        PROTECTED.iter().copied().find(|validation| validation.shares(kind))
    }

    /// A second path that older charts register.
    pub fn legacy_path(self) -> Option<&'static str> {
        match self {
            Self::Validate(Validation { at: ValidatedAt::Path { legacy, .. }, .. }) => *legacy,
            Self::Protect(Kind::CloneSet) => Some("/validate-apps-kruise-io-v1alpha1-cloneset"),
            Self::Mutate(defaulting) if defaulting.path == uniteddeployment::DEFAULTING.path => {
                Some("/mutate-apps-kruise-io-v1alpha1-uniteddeployment")
            }
            Self::Protect(Kind::UnitedDeployment) => {
                Some("/validate-apps-kruise-io-v1alpha1-uniteddeployment")
            }
            _ => None,
        }
    }

    /// The webhook behind a path, in either spelling.
    pub fn from_path(path: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|endpoint| endpoint.path() == path || endpoint.legacy_path() == Some(path))
    }

    /// Whether it is served at all with these gates.
    pub fn is_served(self, gates: &FeatureGates) -> bool {
        match self {
            Self::MutatePod | Self::ValidatePod => gates.enabled(Feature::PodWebhook),
            Self::MutateExitPriority | Self::ValidateExitPriority => {
                gates.enabled(Feature::PodWebhook) && gates.enabled(Feature::ContainerExitPriority)
            }
            Self::Protect(Kind::Service | Kind::Ingress) => {
                gates.enabled(Feature::ResourcesDeletionProtection)
            }
            _ => true,
        }
    }
}

/// The paths that may be registered: those that are served, less `/mutate-pod` while the kind SidecarSet
/// is not installed.
pub fn paths(gates: &FeatureGates, sidecarset_is_installed: bool) -> Vec<&'static str> {
    Endpoint::ALL
        .iter()
        .filter(|endpoint| endpoint.is_served(gates))
        .filter(|endpoint| sidecarset_is_installed || **endpoint != Endpoint::MutatePod)
        .map(|endpoint| endpoint.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_leads_back_to_its_webhook() {
        for endpoint in Endpoint::ALL {
            assert_eq!(Endpoint::from_path(endpoint.path()), Some(*endpoint));
        }
        assert_eq!(
            Endpoint::from_path("/validate-apps-kruise-io-v1alpha1-cloneset"),
            Some(Endpoint::Protect(Kind::CloneSet))
        );
        assert_eq!(Endpoint::from_path("/validate-pods"), None);
    }

    #[test]
    fn every_protected_kind_has_a_path() {
        for kind in Kind::ALL {
            assert!(Endpoint::ALL.contains(&Endpoint::Protect(*kind)), "{kind:?}");
        }
    }

    #[test]
    fn services_and_ingresses_are_registered_only_with_the_gate() {
        let off = paths(&FeatureGates::default(), true);
        assert!(!off.contains(&"/validate-service") && !off.contains(&"/validate-ingress"));
        assert!(off.contains(&"/validate-namespace") && off.contains(&"/mutate-pod"));
        let on = FeatureGates::default().with(Feature::ResourcesDeletionProtection, true);
        assert_eq!(paths(&on, true).len(), Endpoint::ALL.len());
    }

    #[test]
    fn pods_are_registered_only_with_gate_and_sidecarsets() {
        assert!(!paths(&FeatureGates::default(), false).contains(&"/mutate-pod"));
        let off = FeatureGates::default().with(Feature::PodWebhook, false);
        assert!(!paths(&off, true).contains(&"/mutate-pod"));
    }
}
