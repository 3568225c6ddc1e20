//! The probes that the daemon of one node runs for its Pods, and their results. Named like the node.
//! Made from PodProbeMarkers by the controller; not meant to be written by hand.

use super::{Object, Time};
use crate::Raw;

/// Kind of a NodePodProbe.
pub const KIND: &str = "NodePodProbe";
/// Plural of a NodePodProbe in request paths.
pub const PLURAL: &str = "nodepodprobes";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";

/// A NodePodProbe.
pub type NodePodProbe = Object<Spec, Status>;

objects! {
    /// `spec`: the probes to run on the node. Written by the controller.
    pub struct Spec {
        /// The Pods to probe on this node.
        pub pod_probes: Vec<PodProbe>,
    }

    /// `spec.podProbes[]`: the Pods to probe on this node.
    pub struct PodProbe {
        /// The address of the Pod, to which HTTP and TCP checks connect.
        #[serde(rename = "IP")]
        required pub ip: String,
        /// The name of the Pod.
        required pub name: String,
        /// The namespace of the Pod.
        required pub namespace: String,
        /// The checks to run for this Pod.
        pub probes: Vec<ContainerProbe>,
        /// The UID of the Pod, which tells it from a later one of the same name.
        required pub uid: String,
    }

    /// `spec.podProbes[].probes[]`: the checks to run for this Pod.
    pub struct ContainerProbe {
        /// The container that is checked.
        required pub container_name: String,
        /// The name of the PodProbeMarker and the name of its probe, joined with "#".
        required pub name: String,
        /// What is checked and how often. The node daemon runs the check, not the kubelet, and fields left
        /// out are not filled in with the kubelet's defaults.
        pub probe: Option<Raw>,
    }

    /// `status`: the results of the probes. Written by the daemon on the node.
    pub struct Status {
        /// The results, one entry for each Pod that has any.
        pub pod_probe_statuses: Vec<PodProbeStatus>,
    }

    /// `status.podProbeStatuses[]`: the results, one entry for each Pod that has any.
    pub struct PodProbeStatus {
        /// The name of the Pod.
        required pub name: String,
        /// The namespace of the Pod.
        required pub namespace: String,
        /// The newest result of each probe of the Pod.
        pub probe_states: Vec<ProbeState>,
        /// The UID of the Pod.
        required pub uid: String,
    }

    /// `status.podProbeStatuses[].probeStates[]`: the newest result of each probe of the Pod.
    pub struct ProbeState {
        /// When the result was last reported.
        pub last_probe_time: Option<Time>,
        /// When the state last changed.
        pub last_transition_time: Option<Time>,
        /// Output of the check, or its error, cut to 1024 characters.
        pub message: String,
        /// The name of the probe, as in spec.
        required pub name: String,
        /// Succeeded, Failed or Unknown.
        required pub state: String,
    }
}
