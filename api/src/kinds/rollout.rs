//! Says in which steps a new template of a workload spreads over its Pods, and how traffic follows. The workload itself
//! stays as its user wrote it: it is held back when its template changes, and opened step by step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::shared::TargetReference as WorkloadRef;
use super::shared::{ConditionStatus, IntOrString};
use super::{Object, Time};

pub mod release;
pub mod traffic;

pub use release::{FinalisingStep, ReleaseStatus, StepState};
pub use traffic::{
    CustomNetworkRef, GatewayRef, HeaderMatch, HeaderModifier, HttpHeader, HttpRouteMatch, IngressRef,
    PathMatch, PathMatchType, QueryParamMatch, TrafficRoutingRef, ValueMatchType,
};

/// Kind of a Rollout.
pub const KIND: &str = "Rollout";
/// Plural of a Rollout in request paths.
pub const PLURAL: &str = "rollouts";
/// The group and version of these types.
pub const API_VERSION: &str = "rollouts.kruise.io/v1beta1";

/// A Rollout.
pub type Rollout = Object<Spec, Status>;

objects! {
    /// `spec`: the workload, and how its new versions are released.
    pub struct Spec {
        /// Stop acting. A release that is running is ended, and the workload updates freely. Default false.
        pub disabled: bool,
        /// The steps of a release, and how traffic follows.
        required pub strategy: Strategy,
        /// The workload, in the same namespace.
        required pub workload_ref: WorkloadRef,
    }

    /// `spec.strategy`: the steps of a release, and how traffic follows. Exactly one of canary and blueGreen must be
    /// set.
    pub struct Strategy {
        /// Release by a second set of new Pods as large as the old one, which stays until the end.
        pub blue_green: Option<BlueGreenStrategy>,
        /// Release in batches.
        pub canary: Option<CanaryStrategy>,
        /// Hold the release where it is. Pods of the present step still come up. Default false.
        pub paused: bool,
    }

    /// `spec.strategy.canary`: release in batches.
    pub struct CanaryStrategy {
        /// Make no Service for the new Pods. Only for custom network objects that tell the versions apart themselves.
        pub disable_generate_canary_service: bool,
        /// Run the new Pods in a second Deployment until the end, while the first one stays as it is. Only for
        /// Deployments; other workloads replace their own Pods. Default false.
        pub enable_extra_workload_for_canary: bool,
        /// How many new Pods may be unready in a batch that counts as ready: a number, or a percentage of the new Pods.
        /// Default 0.
        pub failure_threshold: Option<IntOrString>,
        /// Labels and annotations that the Pods of the second Deployment get.
        pub patch_pod_template_metadata: Option<PatchPodTemplateMetadata>,
        /// The steps, in their order. At most 50.
        pub steps: Vec<Step>,
        /// The name of the TrafficRouting by which traffic follows this release too.
        pub traffic_routing_ref: String,
        /// The Service and the network objects that traffic takes. At most one.
        pub traffic_routings: Vec<TrafficRoutingRef>,
    }

    /// `spec.strategy.blueGreen`: release by a second set of new Pods as large as the old one, which stays until the
    /// end.
    pub struct BlueGreenStrategy {
        /// Make no Service for the new Pods. Only for custom network objects that tell the versions apart themselves.
        pub disable_generate_canary_service: bool,
        /// How many new Pods may be unready: a number, or a percentage of the new Pods. Not used by this style.
        pub failure_threshold: Option<IntOrString>,
        /// The steps, in their order. At most 50.
        pub steps: Vec<Step>,
        /// The name of the TrafficRouting by which traffic follows this release too.
        pub traffic_routing_ref: String,
        /// The Service and the network objects that traffic takes. At most one.
        pub traffic_routings: Vec<TrafficRoutingRef>,
    }

    /// `spec.strategy.canary.patchPodTemplateMetadata`: labels and annotations that the Pods of the second Deployment
    /// get.
    pub struct PatchPodTemplateMetadata {
        /// Annotations to set.
        pub annotations: BTreeMap<String, String>,
        /// Labels to set.
        pub labels: BTreeMap<String, String>,
    }

    /// A step of a release.
    pub struct Step {
        /// Requests that go to the new Pods: those for which one of these holds. With any, traffic has no effect.
        pub matches: Vec<HttpRouteMatch>,
        /// What happens after the step before the next one begins.
        pub pause: Pause,
        /// How many Pods are new after the step, those of earlier steps included: a number, or a percentage of all.
        pub replicas: Option<IntOrString>,
        /// Headers to set on requests that go to the new Pods.
        pub request_header_modifier: Option<HeaderModifier>,
        /// The share of requests that goes to the new Pods, such as "20%".
        pub traffic: Option<String>,
    }

    /// What happens after a step before the next one begins.
    pub struct Pause {
        /// Seconds to wait. Unset waits for a person; 0 goes on at once.
        pub duration: Option<i32>,
    }

    /// `status`: what the controller last observed. Written by the controller; people approve a step by setting
    /// currentStepState to StepReady, and choose another one by setting nextStepIndex.
    pub struct Status {
        /// Where a blue-green release stands.
        with("release::blue_green") pub blue_green_status: Option<ReleaseStatus>,
        /// Where a release in batches stands.
        with("release::canary") pub canary_status: Option<ReleaseStatus>,
        /// Findings about the release.
        pub conditions: Vec<Condition>,
        /// The step at which the release is, from 1.
        required pub current_step_index: i32,
        /// How far that step is.
        required pub current_step_state: StepState,
        /// What the Rollout waits for, in words.
        pub message: String,
        /// The metadata.generation that this status was computed from.
        pub observed_generation: Option<i64>,
        /// What the Rollout does.
        pub phase: Phase,
    }

    /// A finding about a release.
    pub struct Condition {
        /// When the status of this condition last changed.
        pub last_transition_time: Option<Time>,
        /// When this condition was last written.
        pub last_update_time: Option<Time>,
        /// Text for people with the details of the last change.
        required pub message: String,
        /// One word in CamelCase, made for programs, that says why the condition has this status.
        required pub reason: Reason,
        /// Whether the finding holds. True, False or Unknown.
        required pub status: ConditionStatus,
        /// Progressing, Succeeded, Terminating or Stalled.
        #[serde(rename = "type")]
        required pub kind: ConditionType,
    }
}

/// The two blocks of a strategy, of which a Rollout has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyKind {
    /// `strategy.canary` and `status.canaryStatus`.
    Canary,
    /// `strategy.blueGreen` and `status.blueGreenStatus`.
    BlueGreen,
}

impl Strategy {
    /// The block that is set; `None` without one, and with both.
    pub fn kind(&self) -> Option<StrategyKind> {
        match (&self.canary, &self.blue_green) {
            (Some(_), None) => Some(StrategyKind::Canary),
            (None, Some(_)) => Some(StrategyKind::BlueGreen),
            _ => None,
        }
    }

    /// The steps, in their order.
    pub fn steps(&self) -> &[Step] {
        self.read(|canary| canary.steps.as_slice(), |blue_green| blue_green.steps.as_slice())
    }

    /// The Service and the network objects that traffic takes.
    pub fn traffic_routings(&self) -> &[TrafficRoutingRef] {
        self.read(
            |canary| canary.traffic_routings.as_slice(),
            |blue_green| blue_green.traffic_routings.as_slice(),
        )
    }

    /// How many new Pods may be unready in a batch that counts as ready.
    pub fn failure_threshold(&self) -> Option<&IntOrString> {
        self.read(
            |canary| canary.failure_threshold.as_ref(),
            |blue_green| blue_green.failure_threshold.as_ref(),
        )
    }

    /// Whether the new Pods get no Service of their own.
    pub fn disable_generate_canary_service(&self) -> bool {
        self.read(
            |canary| canary.disable_generate_canary_service,
            |blue_green| blue_green.disable_generate_canary_service,
        )
    }

    /// The name of the TrafficRouting by which traffic follows this release too; empty without one.
    pub fn traffic_routing_ref(&self) -> &str {
        self.read(
            |canary| canary.traffic_routing_ref.as_str(),
            |blue_green| blue_green.traffic_routing_ref.as_str(),
        )
    }

    /// Labels and annotations that the Pods of a second Deployment get.
    pub fn patch_pod_template_metadata(&self) -> Option<&PatchPodTemplateMetadata> {
        self.canary.as_ref()?.patch_pod_template_metadata.as_ref()
    }

    /// Reads what both blocks have, of the one that is set; of both, of the canary one.
    fn read<'a, T: Default>(
        &'a self,
        canary: impl FnOnce(&'a CanaryStrategy) -> T,
        blue_green: impl FnOnce(&'a BlueGreenStrategy) -> T,
    ) -> T {
        match (&self.canary, &self.blue_green) {
            (Some(strategy), _) => canary(strategy),
            (None, Some(strategy)) => blue_green(strategy),
            (None, None) => T::default(),
        }
    }
}

impl Step {
    /// It says which requests reach new Pods.
    pub fn is_routed(&self) -> bool {
        self.traffic.is_some() || !self.matches.is_empty()
    }
}

impl Status {
    /// Where a release of that kind stands.
    pub fn release(&self, kind: StrategyKind) -> Option<&ReleaseStatus> {
        match kind {
            StrategyKind::Canary => self.canary_status.as_ref(),
            StrategyKind::BlueGreen => self.blue_green_status.as_ref(),
        }
    }

    /// Where a release of that kind stands, to be changed.
    pub fn release_mut(&mut self, kind: StrategyKind) -> &mut Option<ReleaseStatus> {
        match kind {
            StrategyKind::Canary => &mut self.canary_status,
            StrategyKind::BlueGreen => &mut self.blue_green_status,
        }
    }

    /// The finding of a type.
    pub fn condition(&self, kind: &ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == *kind)
    }
}

/// What a Rollout does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Phase {
    /// The controller has not handled the Rollout yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// The workload was not found yet.
    Initial,
    /// No release is running.
    Healthy,
    /// A release is running.
    Progressing,
    /// The Rollout is being deleted.
    Terminating,
    /// It was disabled, and the workload updates freely.
    Disabled,
    /// It was disabled, and the release that was running is being ended.
    Disabling,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

impl Phase {
    /// A release is running or being ended: network and workload may be other than their users wrote them.
    pub fn is_releasing(&self) -> bool {
        matches!(self, Self::Progressing | Self::Terminating | Self::Disabling)
    }
}

/// What a condition of a Rollout is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ConditionType {
    /// Nothing.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// Whether a release is running.
    Progressing,
    /// Whether the last release ended with the new version everywhere.
    Succeeded,
    /// Whether the Rollout is being deleted.
    Terminating,
    /// Whether a release has made no progress for longer than it should. Not known to OpenKruise.
    Stalled,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// Why a condition of a Rollout has its status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Reason {
    /// No reason is given.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// The release was seen, and is being prepared.
    Initializing,
    /// The steps are being taken.
    InRolling,
    /// The release is held where it is.
    Paused,
    /// All steps are done, and network and workload are put back as they were.
    Finalising,
    /// The old version is wanted again, and network and workload are put back as they were.
    Cancelling,
    /// The release is over, or the deletion.
    Completed,
    /// Network and workload are put back as they were before the Rollout goes.
    InTerminating,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

#[cfg(test)]
mod tests;
