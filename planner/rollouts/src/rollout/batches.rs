//! The BatchRelease by which Pods are replaced (docs/behaviour/rollouts.md#steps).

use api::annotations::{RELEASED_WORKLOAD, ROLLBACK_IN_BATCH};
use api::finalizers;
use api::kinds::batchrelease::{
    API_VERSION, BatchRelease, BatchState, FinalizingPolicy, KIND, Phase, ReleaseBatch, ReleasePlan,
    RollingStyle,
};
use api::kinds::rollout::{Step, StepState};
use api::kinds::shared::IntOrString;
use serde_json::{Map, Value, json};

use super::pass::{Halt, Pass};
use crate::batch_release;
use crate::object::{Object as _, ObjectName};
use crate::workload::batch::Batch;
use crate::workload::{Style, Workload};
use crate::write::Write;

/// A BatchRelease as it was read.
pub(super) struct Batches<'a> {
    name: ObjectName,
    object: &'a Value,
    release: BatchRelease,
}

/// The members of a plan that a Rollout writes.
const OWN: [&str; 8] = [
    "batchPartition",
    "batches",
    "enableExtraWorkloadForCanary",
    "failureThreshold",
    "finalizingPolicy",
    "patchPodTemplateMetadata",
    "rollingStyle",
    "rolloutID",
];

impl Batches<'_> {
    fn is_deleting(&self) -> bool {
        self.object.is_deleting()
    }

    fn is_completed(&self) -> bool {
        self.release.status.phase == Phase::Completed
    }

    /// The highest batch that may run, from 0.
    fn partition(&self) -> Option<i32> {
        self.release.spec.release_plan.batch_partition
    }

    /// It has done what its spec says for a batch, from 0.
    fn has_reached(&self, batch: i32) -> bool {
        let (status, plan) = (&self.release.status, &self.release.spec.release_plan);
        status.observed_generation == self.release.metadata.generation
            && status.observed_release_plan_hash == batch_release::plan_hash(&plan.batches)
            && status.canary_status.as_ref().is_some_and(|status| {
                status.batch_state == BatchState::Ready && status.current_batch >= batch
            })
    }
}

impl<'a> Pass<'a> {
    fn batches_name(&self) -> ObjectName {
        self.named(API_VERSION, KIND, &self.rollout.metadata.name)
    }

    fn read_batches(&self) -> Result<Option<Batches<'a>>, Halt> {
        let name = self.batches_name();
        let Some(object) = self.view.object(&name)? else { return Ok(None) };
        let release = serde_json::from_value(object.clone()).unwrap_or_default();
        Ok(Some(Batches { name, object, release }))
    }

    /// The workload with which the release began is gone, and another one has its name.
    pub(super) fn has_lost_workload(&self) -> Result<bool, Halt> {
        let Some((workload, batches)) = self.workload.zip(self.read_batches()?) else { return Ok(false) };
        Ok(!batch_release::is_of(&batches.release, workload))
    }

    /// Copies what the BatchRelease counts.
    pub(super) fn count(&mut self) -> Result<(), Halt> {
        let batches = self.read_batches()?;
        let Some(counted) = batches.and_then(|batches| batches.release.status.canary_status) else {
            return Ok(());
        };
        let (replicas, ready) = (counted.updated_replicas, counted.updated_ready_replicas);
        let release = self.release();
        let is_further = replicas > release.replicas || ready > release.ready_replicas;
        (release.replicas, release.ready_replicas) = (replicas, ready);
        if is_further && release.current_step_state == StepState::StepUpgrade {
            self.touch();
        }
        Ok(())
    }

    /// The BatchRelease is at a later step than the present one.
    pub(super) fn goes_back(&self, index: i32) -> Result<bool, Halt> {
        let batches = self.read_batches()?.filter(|batches| !batches.is_deleting());
        Ok(batches.and_then(|batches| batches.partition()).is_some_and(|batch| batch >= index))
    }

    /// How many Pods the BatchRelease may have made new by now.
    pub(super) fn batch_target(&self, workload: &Workload) -> Result<i32, Halt> {
        let Some(batches) = self.read_batches()? else { return Ok(0) };
        let plan = &batches.release.spec.release_plan;
        let batch = plan.batch_partition.and_then(|batch| plan.batches.get(usize::try_from(batch).ok()?));
        Ok(batch.map_or(0, |batch| Batch::of(&batch.canary_replicas, workload, None).updated))
    }

    /// Brings the BatchRelease to the present step, and waits until its Pods are there.
    pub(super) fn upgrade_batch(&mut self, workload: &Workload) -> Result<(), Halt> {
        let batch = self.release().current_step_index.saturating_sub(1);
        let plan = self.release_plan(Some(batch));
        let Some(batches) = self.read_batches()? else {
            self.create_batches(&plan, workload);
            return Err(self.wait("BatchRelease is created"));
        };
        // One that hands the workload back, or has done so, can't go on.
        if batches.is_deleting() || batches.partition().is_none() {
            self.delete_batches()?;
        }
        if let Some(patch) = self.difference(&batches, &plan, workload) {
            self.writes.push(Write::patch(&batches.name, batches.object, patch));
            return Err(self.wait(format!("batch {} begins", batch.saturating_add(1))));
        }
        if batches.has_reached(batch) {
            return Ok(());
        }
        let waits = batch_release::waiting(&batches.release, workload, self.view)?;
        let message = waits.unwrap_or_else(|| format!("batch {} is going on", batch.saturating_add(1)));
        self.watch_progress(&message);
        self.watch_deadline(workload, &message)?;
        Err(self.wait(message))
    }

    /// The plan up to a batch, from 0; without one the workload is handed back.
    fn release_plan(&mut self, batch: Option<i32>) -> ReleasePlan {
        let strategy = &self.rollout.spec.strategy;
        let replicas = |step: &Step| ReleaseBatch {
            canary_replicas: step.replicas.clone().unwrap_or(IntOrString::Int(0)),
        };
        let is_canary = self.style == Style::Canary;
        ReleasePlan {
            batch_partition: batch,
            batches: strategy.steps().iter().map(replicas).collect(),
            enable_extra_workload_for_canary: is_canary,
            failure_threshold: strategy.failure_threshold().cloned(),
            finalizing_policy: None,
            patch_pod_template_metadata: strategy
                .patch_pod_template_metadata()
                .filter(|_| is_canary)
                .cloned(),
            rolling_style: Some(match self.style {
                Style::Partition => RollingStyle::Partition,
                Style::Canary => RollingStyle::Canary,
                Style::BlueGreen => RollingStyle::BlueGreen,
            }),
            rollout_id: self.release().observed_rollout_id.clone(),
        }
    }

    /// A rollback in batches is one of the BatchRelease too, which knows its workload.
    fn annotations(&self, workload: &Workload) -> Map<String, Value> {
        let wanted = self.rollout.metadata.annotations.get(ROLLBACK_IN_BATCH);
        let wanted = wanted.filter(|_| workload.is_rolled_back);
        let wanted = wanted.map(|wanted| (ROLLBACK_IN_BATCH.to_owned(), json!(wanted)));
        let released = (RELEASED_WORKLOAD.to_owned(), json!(workload.object.uid()));
        wanted.into_iter().chain([released]).collect()
    }

    fn create_batches(&mut self, plan: &ReleasePlan, workload: &Workload) {
        let name = self.batches_name();
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": name.name,
                "namespace": name.namespace,
                "annotations": self.annotations(workload),
                // Its controller would add it otherwise: a write less.
                "finalizers": [finalizers::BATCH_RELEASE],
                "ownerReferences": [self.owner()],
            },
            "spec": {"workloadRef": self.rollout.spec.workload_ref, "releasePlan": plan},
        });
        self.writes.push(Write::Create { name, object });
    }

    /// What the BatchRelease lacks. What others wrote into it stays.
    fn difference(&self, batches: &Batches<'_>, plan: &ReleasePlan, workload: &Workload) -> Option<Value> {
        let mut patch = Map::new();
        if batches.release.spec.release_plan != *plan {
            let wanted = json!(plan);
            let members =
                OWN.map(|member| (member.to_owned(), wanted.get(member).cloned().unwrap_or_default()));
            patch.insert("spec".to_owned(), json!({"releasePlan": Map::from_iter(members)}));
        }
        let annotations = self.annotations(workload);
        let missing =
            annotations.iter().filter(|(key, value)| batches.object.annotation(key) != value.as_str());
        let missing: Map<String, Value> = missing.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !missing.is_empty() {
            patch.insert("metadata".to_owned(), json!({"annotations": missing}));
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }

    /// A workload that is held back without a BatchRelease gets one that hands it back. Says whether it did. One that goes,
    /// or is done, hands nothing back any more.
    pub(super) fn create_resuming_batches(&mut self, workload: &Workload) -> Result<bool, Halt> {
        let batches = self.read_batches()?;
        let is_missing = batches.is_none();
        if is_missing {
            let plan = self.release_plan(None);
            self.create_batches(&plan, workload);
        } else if batches.is_some_and(|batches| batches.is_deleting() || batches.is_completed()) {
            self.delete_batches()?;
        }
        Ok(is_missing)
    }

    /// Has the BatchRelease hand the workload back, and waits for that.
    pub(super) fn resume_workload(&mut self, policy: &FinalizingPolicy) -> Result<(), Halt> {
        let Some(batches) = self.read_batches()?.filter(|batches| !batches.is_deleting()) else {
            return Ok(());
        };
        if batches.partition().is_some() {
            let plan = json!({"batchPartition": null, "finalizingPolicy": policy});
            let patch = json!({"spec": {"releasePlan": plan}});
            self.writes.push(Write::patch(&batches.name, batches.object, patch));
            return Err(self.wait("the workload is handed back"));
        }
        if batches.is_completed() {
            return Ok(());
        }
        let message = batches.release.status.message;
        Err(self.wait(if message.is_empty() { "the workload is handed back".to_owned() } else { message }))
    }

    /// Whether the workload is on its way back already.
    pub(super) fn is_resuming(&self) -> Result<bool, Halt> {
        Ok(self.read_batches()?.is_some_and(|batches| batches.partition().is_none()))
    }

    /// Deletes the BatchRelease, and waits until it is gone.
    pub(super) fn delete_batches(&mut self) -> Result<(), Halt> {
        let Some(batches) = self.read_batches()? else { return Ok(()) };
        if !batches.is_deleting() {
            self.writes.push(Write::delete(&batches.name, batches.object));
        }
        Err(self.wait("BatchRelease is being deleted"))
    }
}
