//! Runs custom checks in the containers of Pods and writes the results onto the Pods, as a condition,
//! labels or annotations. The checks never restart a container.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Object, null_is_default};
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

/// `spec`: the Pods to check, the checks, and where the results go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The checks, at least one.
    #[serde(deserialize_with = "null_is_default")]
    pub probes: Vec<ContainerProbe>,
    /// The Pods to check, in the namespace of this object. Must not be empty and cannot be changed.
    #[serde(deserialize_with = "null_is_default")]
    pub selector: LabelSelector,
}

/// `spec.probes[]`: the checks, at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerProbe {
    /// The container to check.
    #[serde(deserialize_with = "null_is_default")]
    pub container_name: String,
    /// Labels and annotations to put on the Pod depending on the result. Each state at most once.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub marker_policy: Vec<MarkerPolicy>,
    /// The name of the check, unique in this object and without "#".
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The type of the Pod condition that gets the result. Not one that Kubernetes or this system uses
    /// itself, such as Ready. Optional if markerPolicy is given.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub pod_condition_type: String,
    /// What is checked and how often. The node daemon runs the check, not the kubelet, and fields left
    /// out are not filled in with the kubelet's defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Raw>,
}

/// `spec.probes[].markerPolicy[]`: labels and annotations to put on the Pod depending on the result. Each
/// state at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MarkerPolicy {
    /// Annotations for a Pod in this state. Labels or annotations must be given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<String, String>,
    /// Labels for a Pod in this state. Labels or annotations must be given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub labels: BTreeMap<String, String>,
    /// The result that this entry is for: Succeeded or Failed. When only one of them is listed, the other
    /// removes its keys.
    #[serde(deserialize_with = "null_is_default")]
    pub state: String,
}

/// `status`: what the controller last observed. Written by the controller only, through the status
/// subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The number of Pods that are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_pods: Option<i64>,
    /// The metadata.generation that this status was computed from. When it is lower than
    /// metadata.generation the controller has not handled the newest spec yet.
    #[serde(deserialize_with = "null_is_default")]
    pub observed_generation: i64,
}
