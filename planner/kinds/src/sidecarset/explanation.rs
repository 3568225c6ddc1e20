//! Why a SidecarSet was injected into a Pod, or why not, as data.

use std::fmt;

/// What became of a SidecarSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its containers are in the Pod.
    Injected {
        /// Their names in the Pod.
        containers: Vec<String>,
        /// The revision they come from; empty where the SidecarSet has none yet.
        revision: String,
    },
    /// It matches but has no containers; its annotations are set.
    OnlyAnnotations,
    /// `spec.injectionStrategy.paused`
    Paused,
    /// `spec.namespaceSelector` does not match the Pod's Namespace.
    OtherNamespace,
    /// `spec.namespaceSelector` can't be used and so matches no Namespace.
    BrokenNamespaceSelector,
    /// `spec.selector` does not match the Pod's labels.
    OtherLabels,
    /// `spec.selector` is unset or empty and so matches no Pod.
    EmptySelector,
    /// It matches, but a canary of it does too.
    ReplacedByCanary {
        /// The canary.
        canary: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Injected { containers, revision } if revision.is_empty() => {
                write!(formatter, "injected: {}", containers.join(", "))
            }
            Self::Injected { containers, revision } => {
                write!(formatter, "injected from revision {revision}: {}", containers.join(", "))
            }
            Self::OnlyAnnotations => formatter.write_str("matches, but has no containers to inject"),
            Self::Paused => formatter.write_str("not injected: spec.injectionStrategy.paused is true"),
            Self::OtherNamespace => formatter
                .write_str("not injected: spec.namespaceSelector does not match the labels of the Namespace"),
            Self::BrokenNamespaceSelector => formatter
                .write_str("not injected: spec.namespaceSelector is invalid and matches no Namespace"),
            Self::OtherLabels => {
                formatter.write_str("not injected: spec.selector does not match the labels of the Pod")
            }
            Self::EmptySelector => {
                formatter.write_str("not injected: spec.selector is empty and matches no Pod")
            }
            Self::ReplacedByCanary { canary } => {
                write!(formatter, "not injected: its canary {canary} is injected instead")
            }
        }
    }
}
