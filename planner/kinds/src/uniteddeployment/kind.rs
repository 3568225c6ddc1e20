//! The kinds of the workloads of subsets (docs/behaviour/uniteddeployment.md#workloads).

use api::kinds::shared::WorkloadTemplate;
use api::kinds::uniteddeployment::Template;

/// What runs the Pods of subsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildKind {
    /// StatefulSets of our own group.
    AdvancedStatefulSet,
    /// CloneSets.
    CloneSet,
    /// Deployments.
    Deployment,
    /// StatefulSets of Kubernetes.
    StatefulSet,
}

impl ChildKind {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::AdvancedStatefulSet, Self::CloneSet, Self::Deployment, Self::StatefulSet];

    /// What this template asks for; the first where there are several, which validation refuses.
    pub fn of(template: &Template) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.template(template).is_some())
    }

    /// The template of this kind.
    pub fn template(self, template: &Template) -> Option<&WorkloadTemplate> {
        match self {
            Self::AdvancedStatefulSet => template.advanced_stateful_set_template.as_ref(),
            Self::CloneSet => template.clone_set_template.as_ref(),
            Self::Deployment => template.deployment_template.as_ref(),
            Self::StatefulSet => template.stateful_set_template.as_ref(),
        }
    }

    /// The name of its template in `spec.template`.
    pub fn member(self) -> &'static str {
        match self {
            Self::AdvancedStatefulSet => "advancedStatefulSetTemplate",
            Self::CloneSet => "cloneSetTemplate",
            Self::Deployment => "deploymentTemplate",
            Self::StatefulSet => "statefulSetTemplate",
        }
    }

    /// Its group and version.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::AdvancedStatefulSet | Self::CloneSet => "apps.kruise.io/v1beta1",
            Self::Deployment | Self::StatefulSet => "apps/v1",
        }
    }

    /// Its name in objects.
    pub fn kind(self) -> &'static str {
        match self {
            Self::AdvancedStatefulSet | Self::StatefulSet => "StatefulSet",
            Self::CloneSet => "CloneSet",
            Self::Deployment => "Deployment",
        }
    }

    /// Its name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::AdvancedStatefulSet | Self::StatefulSet => "statefulsets",
            Self::CloneSet => "clonesets",
            Self::Deployment => "deployments",
        }
    }

    /// Its name in Events, which distinguishes it from all others.
    pub fn display_name(self) -> &'static str {
        match self {
            Self::AdvancedStatefulSet => "AdvancedStatefulSet",
            _ => self.kind(),
        }
    }

    /// Its Pods have no names and volumes of their own.
    pub fn is_stateless(self) -> bool {
        matches!(self, Self::CloneSet | Self::Deployment)
    }

    /// It keeps Pods at the old revision by a partition.
    pub(super) fn has_partition(self) -> bool {
        self != Self::Deployment
    }

    /// The member of its spec that says how Pods are replaced.
    pub(super) fn strategy(self) -> &'static str {
        if self == Self::Deployment { "strategy" } else { "updateStrategy" }
    }
}
