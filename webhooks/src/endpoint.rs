//! The admission webhooks that this server answers, and their paths (spec 00 §4.2).

use api::features::{Feature, FeatureGates};
use planner::kinds::deletion_protection::Kind;

/// An admission webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Mutation of Pods at their creation.
    MutatePod,
    /// Defaulting of SidecarSets.
    MutateSidecarSet,
    /// Validation of SidecarSets.
    ValidateSidecarSet,
    /// Defaulting of CloneSets.
    MutateCloneSet,
    /// Deletion protection of one kind. The path of CloneSets validates their creates and updates too;
    /// those of the other Kruise workloads are not decided by this version.
    Protect(Kind),
}

impl Endpoint {
    /// Every webhook.
    pub const ALL: &'static [Self] = &[
        Self::MutatePod,
        Self::MutateSidecarSet,
        Self::ValidateSidecarSet,
        Self::MutateCloneSet,
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
            Self::MutateSidecarSet => "/mutate-apps-kruise-io-sidecarset",
            Self::ValidateSidecarSet => "/validate-apps-kruise-io-sidecarset",
            Self::MutateCloneSet => "/mutate-apps-kruise-io-cloneset",
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

    /// A second path that older charts register (spec 50 §3).
    pub fn legacy_path(self) -> Option<&'static str> {
        match self {
            Self::Protect(Kind::CloneSet) => Some("/validate-apps-kruise-io-v1alpha1-cloneset"),
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

    /// Whether it is served at all with these gates (spec 00 §4.3).
    pub fn is_served(self, gates: &FeatureGates) -> bool {
        match self {
            Self::MutatePod => gates.enabled(Feature::PodWebhook),
            Self::Protect(Kind::Service | Kind::Ingress) => {
                gates.enabled(Feature::ResourcesDeletionProtection)
            }
            _ => true,
        }
    }
}

/// The paths that may be registered: those that are served, less `/mutate-pod` while the kind SidecarSet
/// is not installed (spec 00 §4.3).
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
        assert_eq!(Endpoint::from_path("/validate-pod"), None);
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
