//! What objects of the cluster are to a Pod under review, and why, as data.

use std::fmt;

use kinds::persistentpodstate::injection as persistentpodstate;
use kinds::podprobemarker::injection as podprobemarker;
use kinds::podunavailablebudget::reason as budget;
use kinds::sidecarset::explanation as sidecarset;
use kinds::workloadspread::explanation as workloadspread;

/// What became of one object in a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// A SidecarSet.
    SidecarSet {
        /// Its name.
        name: String,
        /// What became of it.
        reason: sidecarset::Reason,
    },
    /// A PodUnavailableBudget of the Pod's namespace.
    PodUnavailableBudget {
        /// Its name.
        name: String,
        /// What it is to the Pod.
        reason: budget::Reason,
    },
    /// A PodProbeMarker of the Pod's namespace.
    PodProbeMarker {
        /// Its name.
        name: String,
        /// What it is to the Pod.
        reason: podprobemarker::Reason,
    },
    /// A WorkloadSpread of the Pod's namespace.
    WorkloadSpread {
        /// Its name.
        name: String,
        /// What it is to the Pod.
        reason: workloadspread::Reason,
    },
    /// A PersistentPodState of the Pod's namespace.
    PersistentPodState {
        /// Its name.
        name: String,
        /// What it is to the Pod.
        reason: persistentpodstate::Reason,
    },
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SidecarSet { name, reason } => write!(formatter, "SidecarSet {name}: {reason}"),
            Self::PodUnavailableBudget { name, reason } => {
                write!(formatter, "PodUnavailableBudget {name}: {reason}")
            }
            Self::PodProbeMarker { name, reason } => write!(formatter, "PodProbeMarker {name}: {reason}"),
            Self::WorkloadSpread { name, reason } => write!(formatter, "WorkloadSpread {name}: {reason}"),
            Self::PersistentPodState { name, reason } => {
                write!(formatter, "PersistentPodState {name}: {reason}")
            }
        }
    }
}
