//! The workload of a release, whatever its kind (docs/behaviour/rollouts.md#workloads): which of its versions is stable and
//! which is new, how many Pods each has, and what a release does to it.
//!
//! ```text
//!   kind         the kinds that can be released
//!   versions     which version is stable, which new   batch        how many Pods a batch makes new
//!   revisions    ControllerRevisions                  task         what a release does, as data
//!   actions      what a release does to its workload  rollback     its old template
//!   partition    ... where Pods of the workload are replaced
//!   canary       ... where a second Deployment runs the new Pods
//!   blue_green   ... where the workload grows to a second set    autoscaler  what else would change its size
//! ```

use std::sync::Arc;

use api::annotations::IN_PROGRESSING;
use api::kinds::batchrelease::{ReleasePlan, RollingStyle};
use api::kinds::rollout::{Strategy, StrategyKind, WorkloadRef};
use api::labels::ROLLOUT_ID;
use pod::observed::ObservedPod;
use pod::revision_labels::short_hash;
use serde_json::Value;

use crate::object::{Object as _, ObjectName};
use crate::view::{Unread, View};

pub(crate) mod actions;
mod autoscaler;
pub(crate) mod batch;
pub(crate) mod blue_green;
mod canary;
#[cfg(test)]
pub(crate) mod fixture;
mod kind;
pub(crate) mod partition;
mod revisions;
pub(crate) mod rollback;
pub(crate) mod task;
#[cfg(test)]
mod tests;
mod versions;

pub use kind::WorkloadKind;
pub use revisions::controller_revisions;
pub(crate) use revisions::revision_hash;

/// How new Pods come beside old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The workload's own Pods are replaced.
    Partition,
    /// A second Deployment runs the new Pods.
    Canary,
    /// The workload grows to a second set of Pods.
    BlueGreen,
}

impl Style {
    /// The style of a Rollout.
    pub fn of(strategy: &Strategy, reference: &WorkloadRef) -> Self {
        let has_canary =
            strategy.canary.as_ref().is_some_and(|canary| canary.enable_extra_workload_for_canary);
        match strategy.kind() {
            Some(StrategyKind::BlueGreen) => Self::BlueGreen,
            _ => Self::with_canary(has_canary, reference),
        }
    }

    /// The style of a BatchRelease.
    pub fn of_plan(plan: &ReleasePlan, reference: &WorkloadRef) -> Self {
        match plan.rolling_style {
            Some(RollingStyle::BlueGreen) => Self::BlueGreen,
            Some(RollingStyle::Partition) => Self::Partition,
            Some(RollingStyle::Canary) => Self::with_canary(true, reference),
            None | Some(RollingStyle::Other(_)) => {
                Self::with_canary(plan.enable_extra_workload_for_canary, reference)
            }
        }
    }

    /// Only Deployments have a second one.
    fn with_canary(has_canary: bool, reference: &WorkloadRef) -> Self {
        let is_deployment = WorkloadKind::of(reference) == Some(WorkloadKind::Deployment);
        if has_canary && is_deployment { Self::Canary } else { Self::Partition }
    }
}

/// The workload of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// What it is called.
    pub name: ObjectName,
    /// The object as it was read.
    pub object: Value,
    /// Its kind.
    pub kind: WorkloadKind,
    /// How its new Pods come beside old ones.
    pub style: Style,
    /// Grows with every change of its spec.
    pub generation: i64,
    /// The generation that its controller has seen.
    pub observed_generation: i64,
    /// How many Pods it is to have; of a DaemonSet, how many Nodes are to have one.
    pub replicas: i32,
    /// How many Pods it has. Those of a second Deployment don't count.
    pub status_replicas: i32,
    /// How many of its Pods are ready.
    pub ready_replicas: i32,
    /// How many of its Pods are available.
    pub available_replicas: i32,
    /// How many Pods have the new version.
    pub updated_replicas: i32,
    /// How many of these are ready; of a second Deployment, available.
    pub updated_ready_replicas: i32,
    /// The old version, as old Pods have it in their label; empty where it is not known.
    pub stable_revision: String,
    /// The new version: that of the present template.
    pub update_revision: String,
    /// The new version, as new Pods have it in their label; empty where there is none yet.
    pub pod_template_hash: String,
    /// The label of Pods that tells versions apart.
    pub revision_label: &'static str,
    /// The present template is that of the stable version again.
    pub is_rolled_back: bool,
    /// The Rollout for which the workload was held when its template changed; `None` where no release is running.
    pub in_progressing: Option<String>,
    /// The identity of the release: what its user gives, else the new version.
    pub rollout_id: String,
    /// The UID of what manages new Pods; empty where there is nothing yet.
    new_pods_owner: String,
    /// Pods of a version run that is neither the stable nor the new one.
    has_other_version: bool,
}

impl Workload {
    /// Its controller has seen its present spec.
    pub fn is_observed(&self) -> bool {
        self.observed_generation >= self.generation
    }

    /// A release of the version `recorded` is one of the present version. OpenKruise names versions of Deployments by a hash
    /// that can't be computed here: where there are Pods, and none has a third version, the recorded one is the present one.
    pub fn is_release_of(&self, recorded: &str) -> bool {
        let is_same = match self.kind {
            WorkloadKind::Deployment => {
                self.status_replicas > 0 && !self.has_other_version && !self.is_rolled_back
            }
            kind if kind.is_stateful() => false,
            _ => short_hash(recorded) == self.update_revision,
        };
        is_same || recorded == self.update_revision
    }

    /// All Pods are there, and none has another version.
    pub(crate) fn has_only_new_pods(&self) -> bool {
        let Self { replicas, status_replicas, updated_replicas, .. } = *self;
        replicas > 0 && status_replicas >= replicas && updated_replicas >= status_replicas
    }

    /// Its controller replaces Pods in the order of their ordinals.
    pub(crate) fn is_ordered(&self) -> bool {
        let path = "/spec/updateStrategy/rollingUpdate/unorderedUpdate";
        self.kind.is_stateful() && self.object.pointer(path).is_none_or(Value::is_null)
    }

    /// The Pods of the new version that nobody ends, sorted by name.
    ///
    /// # Errors
    /// They have not been read.
    pub fn new_pods<'v>(&self, view: &'v View) -> Result<Vec<&'v Arc<ObservedPod>>, Unread> {
        new_pods(self.kind, &self.new_pods_owner, &self.update_revision, view)
    }
}

fn new_pods<'v>(
    kind: WorkloadKind,
    owner: &str,
    revision: &str,
    view: &'v View,
) -> Result<Vec<&'v Arc<ObservedPod>>, Unread> {
    if owner.is_empty() {
        return Ok(Vec::new());
    }
    let labels = kind.revision_labels();
    let is_new = |pod: &ObservedPod| labels.is_none_or(|labels| labels.is_at(pod, revision));
    let mut pods: Vec<_> = view.pods_of(owner)?.iter().filter(|pod| pod.is_active() && is_new(pod)).collect();
    pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    Ok(pods)
}

/// The version in which a workload is read and written. That of a CloneSet says where its strategy stands.
pub fn version_of(reference: &WorkloadRef) -> &str {
    match WorkloadKind::of(reference) {
        Some(WorkloadKind::CloneSet) => "apps.kruise.io/v1alpha1",
        _ => &reference.api_version,
    }
}

/// The workload of a Rollout; `None` where there is none of this name, or its kind can't be released.
///
/// # Errors
/// Something that says which versions there are has not been read.
pub fn read(
    reference: &WorkloadRef,
    namespace: &str,
    style: Style,
    view: &View,
) -> Result<Option<Workload>, Unread> {
    let Some(kind) = WorkloadKind::of(reference) else { return Ok(None) };
    let name = ObjectName::new(version_of(reference), &reference.kind, namespace, &reference.name);
    let Some(object) = view.object(&name)? else { return Ok(None) };
    let in_progressing = in_progressing(object);
    let mut workload = Workload {
        style,
        generation: object.number("/metadata/generation").unwrap_or(0),
        observed_generation: kind.observed_generation(object),
        replicas: kind.replicas(object),
        status_replicas: kind.count(object, "/status/replicas", "/status/currentNumberScheduled"),
        ready_replicas: kind.count(object, "/status/readyReplicas", "/status/numberReady"),
        available_replicas: kind.count(object, "/status/availableReplicas", "/status/numberAvailable"),
        updated_replicas: kind.count(object, "/status/updatedReplicas", "/status/updatedNumberScheduled"),
        updated_ready_replicas: 0,
        stable_revision: String::new(),
        update_revision: String::new(),
        pod_template_hash: String::new(),
        revision_label: kind.revision_label(),
        is_rolled_back: false,
        in_progressing,
        rollout_id: String::new(),
        new_pods_owner: object.uid().to_owned(),
        has_other_version: false,
        name,
        object: object.clone(),
        kind,
    };
    versions::read(&mut workload, view)?;
    workload.is_rolled_back &= workload.in_progressing.is_some();
    workload.rollout_id = match given_rollout_id(object) {
        Some(given) => given.to_owned(),
        None if workload.is_rolled_back => format!("rollback-{}", workload.update_revision),
        None => workload.update_revision.clone(),
    };
    Ok(Some(workload))
}

/// The identity that the user of a workload gives its release, as a label or as an annotation.
pub fn given_rollout_id(workload: &Value) -> Option<&str> {
    let label = workload.label(ROLLOUT_ID).filter(|id| !id.is_empty());
    label.or_else(|| workload.annotation(ROLLOUT_ID).filter(|id| !id.is_empty()))
}

/// The Rollout for which a workload is held; empty where the annotation does not say.
fn in_progressing(workload: &Value) -> Option<String> {
    let text = workload.annotation(IN_PROGRESSING).filter(|text| !text.is_empty())?;
    let state: Value = serde_json::from_str(text).unwrap_or_default();
    Some(state.text("/rolloutName").to_owned())
}
