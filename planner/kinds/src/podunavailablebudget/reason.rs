//! What a budget is to a Pod, for people who ask why.

use std::fmt;

/// What a budget is to a new Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It protects the Pod.
    Protects,
    /// It matches, but another one comes first.
    Displaced {
        /// The other one.
        by: String,
    },
    /// `spec.targetRef` is not the workload of the Pod.
    OtherWorkload,
    /// `spec.selector` does not match the Pod's labels.
    OtherLabels,
    /// There is no `spec.selector`, or an empty one, and the Pod has no workload to compare.
    EmptySelector,
    /// `spec.selector` can't be used.
    BrokenSelector(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protects => formatter.write_str("protects the Pod"),
            Self::Displaced { by } => {
                write!(formatter, "matches, but the Pod is protected by PodUnavailableBudget {by}")
            }
            Self::OtherWorkload => {
                formatter.write_str("does not protect the Pod: spec.targetRef is not its workload")
            }
            Self::OtherLabels => {
                formatter.write_str("does not protect the Pod: spec.selector does not match its labels")
            }
            Self::EmptySelector => formatter
                .write_str("does not protect the Pod: spec.selector is empty, or the Pod has no workload"),
            Self::BrokenSelector(problem) => {
                write!(formatter, "does not protect the Pod: spec.selector is invalid: {problem}")
            }
        }
    }
}
