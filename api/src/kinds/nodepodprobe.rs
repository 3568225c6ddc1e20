//! The probes that the daemon of one node runs for its Pods, and their results. Named like the node.
//! Made from PodProbeMarkers by the controller; not meant to be written by hand.

use serde::{Deserialize, Serialize};

use super::{Object, Time, null_is_default};
use crate::Raw;

/// Kind of a NodePodProbe.
pub const KIND: &str = "NodePodProbe";
/// Plural of a NodePodProbe in request paths.
pub const PLURAL: &str = "nodepodprobes";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";

/// A NodePodProbe.
pub type NodePodProbe = Object<Spec, Status>;

/// `spec`: the probes to run on the node. Written by the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The Pods to probe on this node.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub pod_probes: Vec<PodProbe>,
}

/// `spec.podProbes[]`: the Pods to probe on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodProbe {
    /// The address of the Pod, to which HTTP and TCP checks connect.
    #[serde(rename = "IP", deserialize_with = "null_is_default")]
    pub ip: String,
    /// The name of the Pod.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The namespace of the Pod.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// The checks to run for this Pod.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub probes: Vec<ContainerProbe>,
    /// The UID of the Pod, which tells it from a later one of the same name.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
}

/// `spec.podProbes[].probes[]`: the checks to run for this Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerProbe {
    /// The container that is checked.
    #[serde(deserialize_with = "null_is_default")]
    pub container_name: String,
    /// The name of the PodProbeMarker and the name of its probe, joined with "#".
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// What is checked and how often. The node daemon runs the check, not the kubelet, and fields left
    /// out are not filled in with the kubelet's defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Raw>,
}

/// `status`: the results of the probes. Written by the daemon on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The results, one entry for each Pod that has any.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub pod_probe_statuses: Vec<PodProbeStatus>,
}

/// `status.podProbeStatuses[]`: the results, one entry for each Pod that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodProbeStatus {
    /// The name of the Pod.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The namespace of the Pod.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// The newest result of each probe of the Pod.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub probe_states: Vec<ProbeState>,
    /// The UID of the Pod.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
}

/// `status.podProbeStatuses[].probeStates[]`: the newest result of each probe of the Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeState {
    /// When the result was last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When the state last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Output of the check, or its error, cut to 1024 characters.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub message: String,
    /// The name of the probe, as in spec.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Succeeded, Failed or Unknown.
    #[serde(deserialize_with = "null_is_default")]
    pub state: String,
}
