//! Runs custom checks in the containers of Pods and writes the results onto the Pods, as a condition,
//! labels or annotations. The checks never restart a container.

use std::collections::BTreeMap;

use super::Object;
use crate::Raw;
use crate::meta::LabelSelector;

/// Kind of a PodProbeMarker.
pub const KIND: &str = "PodProbeMarker";
/// Plural of a PodProbeMarker in request paths.
pub const PLURAL: &str = "podprobemarkers";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";

/// A PodProbeMarker.
pub type PodProbeMarker = Object<Spec, Status>;

objects! {
    /// `spec`: the Pods to check, the checks, and where the results go.
    pub struct Spec {
        /// The checks, at least one.
        required pub probes: Vec<ContainerProbe>,
        /// The Pods to check, in the namespace of this object. Must not be empty and cannot be changed.
        required pub selector: LabelSelector,
    }

    /// `spec.probes[]`: the checks, at least one.
    pub struct ContainerProbe {
        /// The container to check.
        required pub container_name: String,
        /// Labels and annotations to put on the Pod depending on the result. Each state at most once.
        pub marker_policy: Vec<MarkerPolicy>,
        /// The name of the check, unique in this object and without "#".
        required pub name: String,
        /// The type of the Pod condition that gets the result. Not one that Kubernetes or this system uses
        /// itself, such as Ready. Optional if markerPolicy is given.
        pub pod_condition_type: String,
        /// What is checked and how often. The node daemon runs the check, not the kubelet, and fields left
        /// out are not filled in with the kubelet's defaults.
        pub probe: Option<Raw>,
    }

    /// `spec.probes[].markerPolicy[]`: labels and annotations to put on the Pod depending on the result. Each
    /// state at most once.
    pub struct MarkerPolicy {
        /// Annotations for a Pod in this state. Labels or annotations must be given.
        pub annotations: BTreeMap<String, String>,
        /// Labels for a Pod in this state. Labels or annotations must be given.
        pub labels: BTreeMap<String, String>,
        /// The result that this entry is for: Succeeded or Failed. When only one of them is listed, the other
        /// removes its keys.
        required pub state: String,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The number of Pods that are checked.
        pub matched_pods: Option<i64>,
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        required pub observed_generation: i64,
    }
}
