//! Why a Pod has no sidecars, or not the present ones: each reason's text, once. The annotation, Events,
//! warnings and the command line all show these words.

use std::fmt;

use crate::sidecarset::explanation;
use crate::sidecarset::rollout::{ExclusionReason, Hold};

/// A reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was created when it would have got the sidecars, and has none.
    Missed,
    /// It was created before the SidecarSet, or before that selected it.
    CreatedBefore,
    /// Pods of its Namespace are not reviewed.
    NamespaceExcluded,
    /// Its labels keep it from being reviewed.
    OptedOut,
    /// What admission says of a new Pod like it.
    Admission(explanation::Reason),
    /// `spec.selector` is invalid, and the Pod meets its sound part.
    BrokenSelector(String),
    /// It has sidecars, but not those that the SidecarSet has now.
    ExclusionReason(ExclusionReason),
    /// It has older sidecars and is not updated now.
    Hold(Hold),
    /// It was missed and is not evicted: as many Pods are away as may be.
    EvictionWaits {
        /// Pods that are away.
        away: usize,
        /// The limit.
        limit: u32,
    },
    /// It was missed and is not evicted: a Pod that came for an evicted one was missed too.
    EvictionRests,
    /// It was missed and is not evicted: admission is not registered for Pods.
    NotRegistered,
    /// It was missed, and the API server refused its eviction with these words.
    EvictionRefused(String),
    /// It was missed and is not evicted: nobody would create it anew, or its end would count as a failure.
    NotReplaced,
    /// No labels can meet `spec.selector`.
    NeverMatches(String),
    /// `spec.namespaceSelector` names a Namespace that does not exist.
    NoSuchNamespace(String),
    /// `spec.namespaceSelector` matches no Namespace.
    NoNamespace,
    /// `spec.selector` matches a workload's own labels, and not those of its Pods.
    WorkloadLabels,
}

impl Reason {
    /// A word for the reason, which scripts can rely on.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missed => "Missed",
            Self::CreatedBefore => "CreatedBefore",
            Self::NamespaceExcluded => "NamespaceExcluded",
            Self::OptedOut => "OptedOut",
            Self::Admission(reason) => match reason {
                explanation::Reason::Injected { .. } => "Injected",
                explanation::Reason::OnlyAnnotations => "OnlyAnnotations",
                explanation::Reason::Paused => "InjectionPaused",
                explanation::Reason::OtherNamespace => "OtherNamespace",
                explanation::Reason::BrokenNamespaceSelector => "InvalidNamespaceSelector",
                explanation::Reason::OtherLabels => "OtherLabels",
                explanation::Reason::EmptySelector => "EmptySelector",
                explanation::Reason::ReplacedByCanary { .. } => "ReplacedByCanary",
            },
            Self::BrokenSelector(_) => "InvalidSelector",
            Self::ExclusionReason(apart) => match apart {
                ExclusionReason::OtherLabels => "OtherLabels",
                ExclusionReason::Inactive => "Ended",
                ExclusionReason::NotInjected => "NotInjected",
                ExclusionReason::Lacks(_) => "NeedsRecreation",
            },
            Self::Hold(hold) => match hold {
                Hold::NeverUpdated => "NeverUpdated",
                Hold::Paused => "UpdatePaused",
                Hold::NotSelected => "UpdateNotSelected",
                Hold::NotUpgradable(_) => "NeedsRecreation",
                Hold::Updating(_) | Hold::Resetting => "Updating",
                Hold::Partition(_) => "Partition",
                Hold::MaxUnavailable { .. } => "OverLimit",
                Hold::Annotation(_) => "UnreadableAnnotation",
                Hold::Refused(_) => "UpdateRefused",
            },
            Self::EvictionWaits { .. } => "EvictionWaits",
            Self::EvictionRests => "EvictionRests",
            Self::NotRegistered => "NotRegistered",
            Self::EvictionRefused(_) => "EvictionRefused",
            Self::NotReplaced => "NotReplaced",
            Self::NeverMatches(_) => "NeverMatches",
            Self::NoSuchNamespace(_) => "NoSuchNamespace",
            Self::NoNamespace => "NoNamespace",
            Self::WorkloadLabels => "WorkloadLabels",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missed => formatter.write_str(
                "not injected: created after the SidecarSet selected it, but admission did not see it; recreate \
                 the Pod",
            ),
            Self::CreatedBefore => formatter
                .write_str("not injected: created before the SidecarSet selected it; recreate the Pod"),
            Self::NamespaceExcluded => {
                formatter.write_str("not injected: Pods of this Namespace are excluded from admission")
            }
            Self::OptedOut => {
                formatter.write_str("not injected: the labels of the Pod exclude it from admission")
            }
            Self::Admission(reason) => reason.fmt(formatter),
            Self::BrokenSelector(problem) => {
                write!(formatter, "not injected: spec.selector is invalid: {problem}")
            }
            Self::ExclusionReason(apart) => write!(formatter, "not updated: {apart}"),
            Self::Hold(hold) => write!(formatter, "not updated: {hold}"),
            Self::EvictionWaits { away, limit } => write!(
                formatter,
                "not evicted: {away} Pods are being replaced or not ready and kutter.io/evict-missed-pods is {limit}"
            ),
            Self::EvictionRests => {
                formatter.write_str("not evicted: a Pod that replaced an evicted one was not injected either")
            }
            Self::NotRegistered => {
                formatter.write_str("not evicted: admission is not registered for Pods; new ones would be missed")
            }
            Self::EvictionRefused(message) => {
                write!(formatter, "not evicted: the eviction was refused ({message})")
            }
            Self::NotReplaced => formatter
                .write_str("not evicted: the Pod has no controller that puts another one in its place"),
            Self::NeverMatches(key) => write!(
                formatter,
                "spec.selector can never match: no value of the label {key} meets all its requirements"
            ),
            Self::NoSuchNamespace(name) => {
                write!(formatter, "spec.namespaceSelector names the Namespace {name}, which does not exist")
            }
            Self::NoNamespace => {
                formatter.write_str("spec.namespaceSelector matches no Namespace that exists")
            }
            Self::WorkloadLabels => formatter.write_str(
                "spec.selector matches the labels of the workload, but not those of its Pod template",
            ),
        }
    }
}
