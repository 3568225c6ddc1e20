//! A rule for traffic that several Rollouts have in common: it holds while one of them is releasing.

use serde::{Deserialize, Serialize};

use super::Object;
use super::rollout::{HeaderModifier, HttpRouteMatch, TrafficRoutingRef};

/// Kind of a TrafficRouting.
pub const KIND: &str = "TrafficRouting";
/// Plural of a TrafficRouting in request paths.
pub const PLURAL: &str = "trafficroutings";
/// The group and version of these types.
pub const API_VERSION: &str = "rollouts.kruise.io/v1alpha1";

/// A TrafficRouting.
pub type TrafficRouting = Object<Spec, Status>;

objects! {
    /// `spec`: what traffic takes, and which of it goes to new Pods.
    pub struct Spec {
        /// Services, and the network objects that lead to them.
        required pub object_ref: Vec<TrafficRoutingRef>,
        /// Which requests go to the new Pods.
        required pub strategy: Strategy,
    }

    /// `spec.strategy`: which requests go to the new Pods.
    pub struct Strategy {
        /// Requests that go to the new Pods: those for which one of these holds. With any, weight has no effect.
        pub matches: Vec<HttpRouteMatch>,
        /// Headers to set on requests that go to the new Pods.
        pub request_header_modifier: Option<HeaderModifier>,
        /// The share of requests that goes to the new Pods, in percent.
        pub weight: Option<i32>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status subresource.
    pub struct Status {
        /// What the TrafficRouting waits for, in words.
        pub message: String,
        /// The metadata.generation that this status was computed from.
        pub observed_generation: Option<i64>,
        /// What the TrafficRouting does.
        pub phase: Phase,
    }
}

/// What a TrafficRouting does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Phase {
    /// The controller has not handled the TrafficRouting yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// The Services and network objects were not looked at yet.
    Initial,
    /// No release is running, and traffic is as its users wrote it.
    Healthy,
    /// A release is running, and the rule holds.
    Progressing,
    /// The last release is over, and traffic is put back as it was.
    Finalizing,
    /// The TrafficRouting is being deleted.
    Terminating,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_those_of_the_api() {
        use Phase::*;
        for (phase, text) in [
            (Unset, ""),
            (Initial, "Initial"),
            (Healthy, "Healthy"),
            (Progressing, "Progressing"),
            (Finalizing, "Finalizing"),
            (Terminating, "Terminating"),
            (Other("Later".to_owned()), "Later"),
        ] {
            assert_eq!(serde_json::to_value(&phase).unwrap(), json!(text));
            assert_eq!(serde_json::from_value::<Phase>(json!(text)).unwrap(), phase);
        }
    }

    #[test]
    fn an_object_of_openkruise_comes_through_unchanged() {
        let object = json!({
            "metadata": {"name": "chain", "finalizers": ["progressing.rollouts.kruise.io/web"]},
            "spec": {
                "objectRef": [{"service": "web", "gracePeriodSeconds": 3, "ingress": {"classType": "nginx", "name": "web"}}],
                "strategy": {"weight": 0, "matches": [{"headers": [{"type": "Exact", "name": "a", "value": "b"}]}],
                    "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}], "remove": ["c"]}},
            },
            "status": {"phase": "Progressing", "message": "m", "observedGeneration": 1},
        });
        let routing: TrafficRouting = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&routing).unwrap(), object);
    }
}
