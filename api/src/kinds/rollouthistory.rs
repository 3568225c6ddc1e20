//! Tells what a release was made from, and which Pods each of its steps brought.

use serde::{Deserialize, Serialize};

use super::Object;
use crate::Raw;

/// Kind of a RolloutHistory.
pub const KIND: &str = "RolloutHistory";
/// Plural of a RolloutHistory in request paths.
pub const PLURAL: &str = "rollouthistories";
/// The group and version of these types.
pub const API_VERSION: &str = "rollouts.kruise.io/v1alpha1";

/// A RolloutHistory.
pub type RolloutHistory = Object<Spec, Status>;

objects! {
    /// `spec`: the objects of the release as they were when it began.
    pub struct Spec {
        /// The Rollout that released.
        pub rollout: Option<RolloutInfo>,
        /// The Service of the workload.
        pub service: Option<ObjectInfo>,
        /// The network objects that lead to the Service.
        pub traffic_routing: Option<TrafficRoutingInfo>,
        /// The workload that was released.
        pub workload: Option<WorkloadInfo>,
    }

    /// `spec.rollout`: the Rollout that released.
    pub struct RolloutInfo {
        /// The spec of the Rollout.
        pub data: Option<Raw>,
        /// The name of the Rollout.
        required pub name: String,
        /// The identity of the release.
        #[serde(rename = "rolloutID")]
        required pub rollout_id: String,
    }

    /// `spec.workload`: the workload that was released.
    pub struct WorkloadInfo {
        /// The API group and version of the workload.
        pub api_version: String,
        /// The spec of the workload.
        pub data: Option<Raw>,
        /// The kind of the workload.
        pub kind: String,
        /// The name of the workload.
        required pub name: String,
    }

    /// An object as it was when the release began.
    pub struct ObjectInfo {
        /// The spec of the object.
        pub data: Option<Raw>,
        /// The name of the object.
        required pub name: String,
    }

    /// `spec.trafficRouting`: the network objects that lead to the Service.
    pub struct TrafficRoutingInfo {
        /// The HTTPRoute that leads to the Service.
        pub http_route: Option<ObjectInfo>,
        /// The Ingress that leads to the Service.
        pub ingress: Option<ObjectInfo>,
    }

    /// `status`: what the release brought. Written by the controller only, through the status subresource.
    pub struct Status {
        /// The Pods that each step brought.
        pub canary_steps: Vec<StepInfo>,
        /// Whether the release is over.
        pub phase: Phase,
    }

    /// `status.canarySteps[]`: the Pods that each step brought.
    pub struct StepInfo {
        /// The step, from 1.
        pub canary_step_index: i32,
        /// The Pods that it brought.
        pub pods: Vec<PodInfo>,
    }

    /// `status.canarySteps[].pods[]`: the Pods that a step brought.
    pub struct PodInfo {
        /// The address of the Pod.
        pub ip: String,
        /// The name of the Pod.
        pub name: String,
        /// The node of the Pod.
        pub node_name: String,
    }
}

/// Whether a release is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Phase {
    /// It is running.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// It is over, and its Pods are listed.
    #[serde(rename = "completed")]
    Completed,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_openkruise_keeps_its_snapshots_as_text() {
        let text = concat!(
            r#"{"metadata":{"name":"web-abc123"},"spec":{"rollout":{"data":{"z":1.50,"a":null},"name":"web","rolloutID":"7"},"#,
            r#""workload":{"apiVersion":"apps/v1","data":{"replicas":3},"kind":"Deployment","name":"web"}},"#,
            r#""status":{"canarySteps":[{"canaryStepIndex":1,"pods":[{"ip":"10.0.0.1","name":"p","nodeName":"n"}]}],"#,
            r#""phase":"completed"}}"#,
        );
        let history: RolloutHistory = serde_json::from_str(text).unwrap();
        assert_eq!(history.status.phase, Phase::Completed);
        assert_eq!(serde_json::to_string(&history).unwrap(), text);
    }
}
