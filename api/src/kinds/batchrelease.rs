//! Brings a new template to the Pods of a workload in batches. A Rollout creates one of its own name for each release.

use serde::{Deserialize, Serialize};

pub use super::rollout::Condition;
use super::rollout::{PatchPodTemplateMetadata, WorkloadRef};
use super::shared::IntOrString;
use super::{Object, Time};

/// Kind of a BatchRelease.
pub const KIND: &str = "BatchRelease";
/// Plural of a BatchRelease in request paths.
pub const PLURAL: &str = "batchreleases";
/// The group and version of these types.
pub const API_VERSION: &str = "rollouts.kruise.io/v1beta1";

/// A BatchRelease.
pub type BatchRelease = Object<Spec, Status>;

objects! {
    /// `spec`: the workload, and the batches in which its Pods are replaced.
    pub struct Spec {
        /// The batches, and how far they may go.
        required pub release_plan: ReleasePlan,
        /// The workload, in the same namespace.
        pub workload_ref: Option<WorkloadRef>,
    }

    /// `spec.releasePlan`: the batches, and how far they may go.
    pub struct ReleasePlan {
        /// The highest batch that may run, from 0. Unset ends the release and hands the workload back.
        pub batch_partition: Option<i32>,
        /// The batches, in their order.
        pub batches: Vec<ReleaseBatch>,
        /// Run the new Pods in a second Deployment. Read where rollingStyle is empty.
        required pub enable_extra_workload_for_canary: bool,
        /// How many new Pods may be unready in a batch that counts as ready: a number, or a percentage of the new Pods.
        /// Default 0.
        pub failure_threshold: Option<IntOrString>,
        /// Whether the end waits until all Pods are new. Default Immediate.
        pub finalizing_policy: Option<FinalizingPolicy>,
        /// Labels and annotations that the Pods of the second Deployment get.
        pub patch_pod_template_metadata: Option<PatchPodTemplateMetadata>,
        /// How new Pods come beside old ones. Default Partition.
        pub rolling_style: Option<RollingStyle>,
        /// The identity of the release, which its Pods get as a label.
        #[serde(rename = "rolloutID")]
        pub rollout_id: String,
    }

    /// `spec.releasePlan.batches[]`: the batches, in their order.
    pub struct ReleaseBatch {
        /// How many Pods are new after the batch, those of earlier batches included: a number, or a percentage of all.
        required pub canary_replicas: IntOrString,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status subresource.
    pub struct Status {
        /// The present batch.
        pub canary_status: Option<BatchStatus>,
        /// How often the name of a second Deployment was already taken.
        pub collision_count: Option<i32>,
        /// Findings about the release.
        pub conditions: Vec<Condition>,
        /// What the release waits for, in words.
        pub message: String,
        /// The metadata.generation that this status was computed from.
        pub observed_generation: Option<i64>,
        /// The hash of the batches that the release was computed from.
        pub observed_release_plan_hash: String,
        /// The identity of the release that was seen last.
        #[serde(rename = "observedRolloutID")]
        pub observed_rollout_id: String,
        /// How many Pods the workload should have, as it was seen last.
        pub observed_workload_replicas: Option<i32>,
        /// What the release does.
        pub phase: Phase,
        /// The revision of old Pods.
        pub stable_revision: String,
        /// The revision of new Pods.
        pub update_revision: String,
    }

    /// `status.canaryStatus`: the present batch.
    pub struct BatchStatus {
        /// When the batch became ready.
        pub batch_ready_time: Option<Time>,
        /// How far the batch is.
        pub batch_state: BatchState,
        /// The batch, from 0.
        required pub current_batch: i32,
        /// How many Pods had the new revision already when a rollback in batches began.
        pub no_need_update_replicas: Option<i32>,
        /// The number of new Pods that are ready.
        pub updated_ready_replicas: i32,
        /// The number of new Pods.
        pub updated_replicas: i32,
    }
}

/// What a BatchRelease does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Phase {
    /// The controller has not handled the release yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// The workload is taken over.
    Preparing,
    /// Batches run.
    Progressing,
    /// The workload is handed back.
    Finalizing,
    /// The workload has been handed back.
    Completed,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// How far a batch is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum BatchState {
    /// No batch has begun.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// The workload is told how many Pods are to be new.
    Upgrading,
    /// The new Pods come up.
    Verifying,
    /// Enough new Pods are ready.
    Ready,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// Whether the end of a release waits until all Pods are new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FinalizingPolicy {
    /// It does not.
    #[default]
    #[serde(alias = "")]
    Immediate,
    /// It does, where a second Deployment runs the new Pods.
    WaitResume,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// How new Pods come beside old ones.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum RollingStyle {
    /// In a second Deployment.
    Canary,
    /// The workload's own Pods are replaced.
    Partition,
    /// The workload grows to a second set of Pods.
    BlueGreen,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(text: &str) -> T {
        serde_json::from_value(json!(text)).unwrap()
    }

    #[test]
    fn an_object_of_openkruise_comes_through_unchanged() {
        let object = json!({
            "metadata": {"name": "web", "uid": "u", "generation": 3},
            "spec": {
                "workloadRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"},
                "releasePlan": {"batches": [{"canaryReplicas": "20%"}, {"canaryReplicas": 3}], "batchPartition": 0,
                    "rolloutID": "7", "failureThreshold": "10%", "finalizingPolicy": "WaitResume", "rollingStyle": "Canary",
                    "enableExtraWorkloadForCanary": false, "patchPodTemplateMetadata": {"labels": {"a": "b"}}},
            },
            "status": {"phase": "Progressing", "stableRevision": "v1", "updateRevision": "v2", "observedGeneration": 3,
                "observedRolloutID": "7", "observedWorkloadReplicas": 5, "observedReleasePlanHash": "h", "message": "m",
                "collisionCount": 1, "canaryStatus": {"batchState": "Verifying", "currentBatch": 0, "updatedReplicas": 1,
                    "updatedReadyReplicas": 1, "noNeedUpdateReplicas": 0, "batchReadyTime": "2026-01-02T03:04:05Z"}},
        });
        let release: BatchRelease = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(release.spec.release_plan.batches[1].canary_replicas, IntOrString::Int(3));
        assert_eq!(serde_json::to_value(&release).unwrap(), object);
    }

    #[test]
    fn words_are_those_of_the_api() {
        let phases = ["", "Preparing", "Progressing", "Finalizing", "Completed"].map(read::<Phase>);
        assert_eq!(
            phases,
            [Phase::Unset, Phase::Preparing, Phase::Progressing, Phase::Finalizing, Phase::Completed]
        );
        let states = ["", "Upgrading", "Verifying", "Ready"].map(read::<BatchState>);
        assert_eq!(
            states,
            [BatchState::Unset, BatchState::Upgrading, BatchState::Verifying, BatchState::Ready]
        );
        let policies = ["", "Immediate", "WaitResume"].map(read::<FinalizingPolicy>);
        let immediate = FinalizingPolicy::Immediate;
        assert_eq!(policies, [immediate.clone(), immediate, FinalizingPolicy::WaitResume]);
        let styles = ["Canary", "Partition", "BlueGreen"].map(read::<RollingStyle>);
        assert_eq!(styles, [RollingStyle::Canary, RollingStyle::Partition, RollingStyle::BlueGreen]);
    }

    #[test]
    fn a_batch_that_says_nothing_is_of_no_pod() {
        for batch in [json!({}), json!({"canaryReplicas": null})] {
            let batch: ReleaseBatch = serde_json::from_value(batch).unwrap();
            assert_eq!(serde_json::to_value(&batch).unwrap(), json!({"canaryReplicas": 0}));
        }
        let status = Status { canary_status: Some(BatchStatus::default()), ..Status::default() };
        let written: Value = serde_json::to_value(&status).unwrap();
        assert_eq!(written, json!({"canaryStatus": {"currentBatch": 0}}));
    }
}
