//! Where a release stands. The two blocks of a status have some of its fields under other names; rules read one type.

use serde::{Deserialize, Serialize};

use crate::kinds::Time;

objects! {
    /// `status.canaryStatus` and `status.blueGreenStatus`: where a release stands. Written on its own it lacks the
    /// three fields whose names depend on the block.
    pub struct ReleaseStatus {
        /// The step at which the release is, from 1.
        pub current_step_index: i32,
        /// How far that step is. StepReady approves it.
        required pub current_step_state: StepState,
        /// How far the release is with putting network and workload back as they were.
        required pub finalising_step: FinalisingStep,
        /// When the release last got further. Pauses and the grace of the network count from it.
        pub last_update_time: Option<Time>,
        /// What the release waits for, in words.
        pub message: String,
        /// The step after the present one; -1 after the last. Another number makes the release go there.
        required pub next_step_index: i32,
        /// The identity of the release, which its Pods have as a label.
        #[serde(rename = "observedRolloutID")]
        pub observed_rollout_id: String,
        /// The metadata.generation of the workload that the release was computed from.
        pub observed_workload_generation: Option<i64>,
        /// What the label by which Services select has on new Pods.
        required pub pod_template_hash: String,
        /// The hash of the strategy that the release was computed from.
        pub rollout_hash: String,
        /// What the label by which Services select has on old Pods.
        pub stable_revision: String,
        /// The new version: `canaryRevision` or `updatedRevision`.
        #[serde(skip)]
        required pub revision: String,
        /// The number of new Pods: `canaryReplicas` or `updatedReplicas`.
        #[serde(skip)]
        required pub replicas: i32,
        /// The number of new Pods that are ready: `canaryReadyReplicas` or `updatedReadyReplicas`.
        #[serde(skip)]
        required pub ready_replicas: i32,
    }
}

/// How a block of the status is read and written, whose names for three of the fields are given.
macro_rules! block {
    ($block:ident: $revision:tt, $replicas:tt, $ready_replicas:tt) => {
        pub(super) mod $block {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use super::ReleaseStatus;
            use crate::kinds::null_is_default;

            #[derive(Default, Deserialize, Serialize)]
            #[serde(default)]
            struct Block {
                #[serde(flatten)]
                common: ReleaseStatus,
                #[serde(rename = $revision, deserialize_with = "null_is_default")]
                revision: String,
                #[serde(rename = $replicas, deserialize_with = "null_is_default")]
                replicas: i32,
                #[serde(rename = $ready_replicas, deserialize_with = "null_is_default")]
                ready_replicas: i32,
            }

            pub(crate) fn serialize<S: Serializer>(
                release: &Option<ReleaseStatus>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                let block = release.clone().map(|release| Block {
                    revision: release.revision.clone(),
                    replicas: release.replicas,
                    ready_replicas: release.ready_replicas,
                    common: release,
                });
                block.serialize(serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Option<ReleaseStatus>, D::Error> {
                let block = Option::<Block>::deserialize(deserializer)?;
                Ok(block.map(|Block { common, revision, replicas, ready_replicas }| ReleaseStatus {
                    revision,
                    replicas,
                    ready_replicas,
                    ..common
                }))
            }
        }
    };
}

block!(canary: "canaryRevision", "canaryReplicas", "canaryReadyReplicas");
block!(blue_green: "updatedRevision", "updatedReplicas", "updatedReadyReplicas");

/// How far a step is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum StepState {
    /// No release has been seen yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// Traffic is kept from new Pods before there are any.
    BeforeStepUpgrade,
    /// Pods are replaced.
    StepUpgrade,
    /// Traffic is moved.
    StepTrafficRouting,
    /// Nothing yet: the step passes through.
    StepMetricsAnalysis,
    /// The step is done, and waits for its time or for a person.
    StepPaused,
    /// The next step may begin.
    StepReady,
    /// The last step is done.
    Completed,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// How far a release is with putting network and workload back as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FinalisingStep {
    /// It has not begun.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// The Service selects Pods of both versions again.
    RestoreStableService,
    /// Traffic goes to the old Pods, and the network objects are as before.
    #[serde(rename = "FinalisingStepRouteTrafficToStable")]
    RouteTrafficToStable,
    /// All traffic goes to the new Pods.
    #[serde(rename = "FinalisingStepRouteTrafficToNew")]
    RouteTrafficToNew,
    /// The Service of the new Pods goes.
    RemoveCanaryService,
    /// The workload updates freely.
    ResumeWorkload,
    /// The BatchRelease goes.
    ReleaseWorkloadControl,
    /// It is done.
    #[serde(rename = "END")]
    End,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
