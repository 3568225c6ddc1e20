//! The kinds of workloads that can be released, by group and kind: all versions of a group are the same.

use api::kinds::rollout::WorkloadRef;
use api::labels::{CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH};
use pod::revision_labels::RevisionLabels;
use serde_json::Value;

use super::Style;
use crate::object::{Object as _, group};

/// A kind of workload that can be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// A CloneSet.
    CloneSet,
    /// A Deployment.
    Deployment,
    /// A StatefulSet of Kubernetes.
    StatefulSet,
    /// A StatefulSet of OpenKruise.
    AdvancedStatefulSet,
    /// A DaemonSet of OpenKruise.
    AdvancedDaemonSet,
    /// A DaemonSet of Kubernetes.
    DaemonSet,
    /// A kind of somebody else with the fields of a StatefulSet.
    StatefulSetLike,
}

impl WorkloadKind {
    /// The kind of a workload; `None` where it can't be released.
    pub fn of(reference: &WorkloadRef) -> Option<Self> {
        match (group(&reference.api_version), reference.kind.as_str()) {
            ("apps.kruise.io", "CloneSet") => Some(Self::CloneSet),
            ("apps", "Deployment") => Some(Self::Deployment),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            ("apps.kruise.io", "StatefulSet") => Some(Self::AdvancedStatefulSet),
            ("apps.kruise.io", "DaemonSet") => Some(Self::AdvancedDaemonSet),
            ("apps", "DaemonSet") => Some(Self::DaemonSet),
            ("apps.kruise.io", _) => None,
            // Groups of Kubernetes itself: its other workloads have no partition.
            (group, _) if !group.contains('.') || group.ends_with(".k8s.io") => None,
            _ => Some(Self::StatefulSetLike),
        }
    }

    /// Its Pods can be released in this style.
    pub fn supports(self, style: Style) -> bool {
        match style {
            Style::Partition => true,
            Style::Canary => self == Self::Deployment,
            Style::BlueGreen => matches!(self, Self::Deployment | Self::CloneSet),
        }
    }

    /// Its controller, where it is ours, labels each Pod with its batch in the write that makes it new.
    pub(crate) fn labels_its_pods(self) -> bool {
        matches!(self, Self::CloneSet | Self::AdvancedStatefulSet | Self::AdvancedDaemonSet)
    }

    /// It has a Pod on each Node, and no number of replicas.
    pub(super) fn is_daemon(self) -> bool {
        matches!(self, Self::AdvancedDaemonSet | Self::DaemonSet)
    }

    /// Its Pods have ordinals.
    pub(super) fn is_stateful(self) -> bool {
        matches!(self, Self::StatefulSet | Self::AdvancedStatefulSet | Self::StatefulSetLike)
    }

    /// The label of Pods that tells versions apart.
    pub(super) fn revision_label(self) -> &'static str {
        match self {
            Self::CloneSet | Self::Deployment => POD_TEMPLATE_HASH,
            _ => CONTROLLER_REVISION_HASH,
        }
    }

    /// How its Pods carry their version; `None` where each version has an owner of its own.
    pub(super) fn revision_labels(self) -> Option<RevisionLabels> {
        match self {
            Self::Deployment => None,
            Self::CloneSet => Some(RevisionLabels::CloneSet { short: false }),
            Self::AdvancedDaemonSet | Self::DaemonSet => Some(RevisionLabels::Hash),
            Self::StatefulSet | Self::AdvancedStatefulSet | Self::StatefulSetLike => {
                Some(RevisionLabels::Exact)
            }
        }
    }

    /// A number of the object: at the second pointer for kinds with a Pod on each Node.
    pub(super) fn count(self, object: &Value, pointer: &str, daemon: &str) -> i32 {
        number(object, if self.is_daemon() { daemon } else { pointer }).unwrap_or(0)
    }

    /// How many Pods it is to have.
    pub(super) fn replicas(self, object: &Value) -> i32 {
        if self.is_daemon() {
            return number(object, "/status/desiredNumberScheduled").unwrap_or(0);
        }
        number(object, "/spec/replicas").unwrap_or(1)
    }

    /// The generation that its controller has seen. A kind of somebody else may not tell.
    pub(super) fn observed_generation(self, object: &Value) -> i64 {
        let told = object.number("/status/observedGeneration");
        let untold = if self == Self::StatefulSetLike { object.number("/metadata/generation") } else { None };
        told.or(untold).unwrap_or(0)
    }
}

/// A number of Pods; `None` where there is none.
pub(super) fn number(object: &Value, pointer: &str) -> Option<i32> {
    object.number(pointer).map(|number| i32::try_from(number).unwrap_or(i32::MAX).max(0))
}
