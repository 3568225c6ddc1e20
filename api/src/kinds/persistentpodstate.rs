//! Remembers on which nodes the Pods of a workload ran, and steers a recreated Pod of the same name
//! back to the same node, zone or other topology.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Object;
use super::shared::TargetReference;

/// Kind of a PersistentPodState.
pub const KIND: &str = "PersistentPodState";
/// Plural of a PersistentPodState in request paths.
pub const PLURAL: &str = "persistentpodstates";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A PersistentPodState.
pub type PersistentPodState = Object<Spec, Status>;

objects! {
    /// `spec`: the workload, and what its Pods should find again after they were recreated.
    pub struct Spec {
        /// Pod annotations to remember in the status. They are recorded only, not put on new Pods.
        pub persistent_pod_annotations: Vec<PersistentPodAnnotation>,
        /// How long a Pod is remembered. WhenScaled forgets it when the workload is scaled below it,
        /// WhenDeleted only when the workload is deleted. Empty acts as WhenScaled.
        pub persistent_pod_state_retention_policy: Option<RetentionPolicy>,
        /// Node labels that the next Pod should have in common with the last one, if possible.
        pub preferred_persistent_topology: Vec<PreferredTopologyTerm>,
        /// Node labels that the next Pod must have in common with the last one. It stays Pending if no such
        /// node has room.
        pub required_persistent_topology: Option<NodeTopologyTerm>,
        /// The workload whose Pods are remembered. Its Pods must keep their names, as those of a StatefulSet
        /// do.
        required pub target_ref: TargetReference,
    }

    /// `spec.persistentPodAnnotations[]`: pod annotations to remember in the status. They are recorded only,
    /// not put on new Pods.
    pub struct PersistentPodAnnotation {
        /// The key of an annotation to remember.
        required pub key: String,
    }

    /// `spec.preferredPersistentTopology[]`: node labels that the next Pod should have in common with the
    /// last one, if possible.
    pub struct PreferredTopologyTerm {
        /// The labels of one wish. They count only all together.
        required pub preference: NodeTopologyTerm,
        /// How much the wish counts against others, as in a preferred node affinity.
        required pub weight: i32,
    }

    /// Labels that the next node of a Pod has in common with the last one; they count only all together.
    pub struct NodeTopologyTerm {
        /// Keys of node labels, for example topology.kubernetes.io/zone, whose values on the last node the
        /// next node must or should have.
        required pub keys: Vec<String>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The metadata.generation that this status was computed from. When it is lower than
        /// metadata.generation the controller has not handled the newest spec yet.
        required pub observed_generation: i64,
        /// What is remembered, by Pod name.
        pub pod_states: BTreeMap<String, PodState>,
    }

    /// `status.podStates{}`: what is remembered, by Pod name.
    pub struct PodState {
        /// The remembered annotations of the Pod.
        pub annotations: BTreeMap<String, String>,
        /// The node on which the Pod last ran ready.
        pub node_name: String,
        /// The values that the topology labels had on that node.
        pub node_topology_labels: BTreeMap<String, String>,
    }
}

/// How long a Pod is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum RetentionPolicy {
    /// Until the workload is scaled below it.
    #[default]
    #[serde(alias = "")]
    WhenScaled,
    /// Until the workload is deleted.
    WhenDeleted,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
