//! Stops a workload at the moment its template changes, so that its release begins with no new Pod
//! (docs/behaviour/rollouts.md#freezing).
//!
//! ```text
//!   deployment   what a Deployment may not change while its release is running
//! ```

use std::sync::Arc;

use api::annotations::{
    DAEMONSET_ORIGINAL_UPDATE_STRATEGY, HELD_PARTITION, IN_PROGRESSING, ROLLOUT_BATCH, ROLLOUT_ID,
};
use api::features::FeatureGates;
use api::kinds::rollout::{Phase, Rollout};
use api::labels::{POD_TEMPLATE_HASH, STABLE_REVISION};
use pod::template::comparison;
use pod::template::complete::with_defaults;
use serde_json::{Value, json};
use values::json_patch::{Patch, edits};

use crate::deployment::{replica_sets, template_of};
use crate::draft::set;
use crate::object::Object as _;
use crate::reference;
use crate::view::{Unread, View};
use crate::workload::blue_green::hold_settings;
use crate::workload::partition::{self, ALL_PODS, hold_partition, note_partition};
use crate::workload::{Style, WorkloadKind, given_rollout_id};

mod deployment;
#[cfg(test)]
mod tests;

/// What all labels and annotations begin with by which a release notes something on its workload.
const NOTES: &str = "rollouts.kruise.io/";

/// What freezing reads beside the workload.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The Rollouts of the namespace.
    pub rollouts: &'a [Arc<Rollout>],
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// What was read of the cluster: the ReplicaSets of a Deployment.
    pub view: &'a View,
}

/// What an update of a workload gets beside what its author wants; nothing where no release begins or is running.
///
/// # Errors
/// Something has not been read.
pub fn review(old: &Value, new: &Value, context: &Context<'_>) -> Result<Patch, Unread> {
    let workload = reference::to(new);
    let is_held_by = |rollout: &&Arc<Rollout>| {
        reference::is_same(&rollout.spec.workload_ref, &workload) && rollout.status.phase != Phase::Disabled
    };
    let rollout = context.rollouts.iter().find(is_held_by);
    let (Some(rollout), Some(kind)) = (rollout, WorkloadKind::of(&workload)) else {
        return Ok(Patch::default());
    };
    let update = Update { old, new, rollout, kind, is_running: is_running(old, new), context };
    let mut frozen = new.clone();
    if update.is_running {
        update.keep_notes(&mut frozen);
    }
    if update.is_running && update.kind == WorkloadKind::Deployment {
        let style = Style::of(&rollout.spec.strategy, &workload);
        deployment::hold(&mut frozen, old, style, update.changes_template());
    } else if update.begins_release() {
        update.freeze(&mut frozen)?;
    } else if update.is_running {
        hold_partition(kind, &mut frozen);
    }
    if update.is_running {
        hold_settings(&mut frozen, false);
    }
    Ok(edits(&new.to_string(), &frozen.to_string()).unwrap_or_default())
}

/// Whether an update may begin a release, whatever its Rollout says.
pub fn may_begin_release(old: &Value, new: &Value) -> bool {
    template_of(old) != template_of(new) || given_rollout_id(old) != given_rollout_id(new)
}

/// A release is running. Its own controller ends it by taking the mark alone.
fn is_running(old: &Value, new: &Value) -> bool {
    let [is_before, is_after] = [old, new].map(|held| held.annotation(IN_PROGRESSING).is_some());
    is_after || is_before && old.get("spec") != new.get("spec")
}

/// An update of a workload that has a Rollout.
struct Update<'a> {
    old: &'a Value,
    new: &'a Value,
    rollout: &'a Rollout,
    kind: WorkloadKind,
    is_running: bool,
    context: &'a Context<'a>,
}

impl Update<'_> {
    /// A write of the whole object by somebody who doesn't know of the release leaves out what it has noted. Who holds the
    /// workload is not put back: the holder sees by this that it has to hold anew.
    fn keep_notes(&self, frozen: &mut Value) {
        if self.new.annotation(IN_PROGRESSING).is_some() {
            return;
        }
        for part in ["labels", "annotations"] {
            let noted = self.old.members(&format!("/metadata/{part}")).into_iter().flatten();
            let is_note = |key: &str| {
                key.starts_with(NOTES) && key != ROLLOUT_ID || [ROLLOUT_BATCH, HELD_PARTITION].contains(&key)
            };
            for (key, value) in noted.filter(|(key, _)| is_note(key)) {
                set(frozen, &["metadata", part, key], value.clone());
            }
        }
    }

    /// The template says something else, whatever its author leaves to defaults.
    fn changes_template(&self) -> bool {
        let (old, new) = (template_of(self.old), template_of(self.new));
        let complete = |template| with_defaults(template, self.context.gates);
        !comparison::is_same(&old, &new) && !comparison::is_same(&complete(&old), &complete(&new))
    }

    fn begins_release(&self) -> bool {
        let rollout = self.rollout;
        let acts = rollout.metadata.deletion_timestamp.is_none()
            && !rollout.spec.disabled
            && rollout.spec.strategy.kind().is_some();
        let id = given_rollout_id(self.new);
        // Where the user names releases a template alone begins none, but it never passes by one that is running.
        let is_new = match id {
            Some(_) if id != given_rollout_id(self.old) => true,
            Some(_) => self.is_running && self.changes_template(),
            None => self.changes_template(),
        };
        acts && is_new && self.has_pods() && self.rolls()
    }

    /// The workload has Pods that a release could replace.
    fn has_pods(&self) -> bool {
        let is_per_node = matches!(self.kind, WorkloadKind::AdvancedDaemonSet | WorkloadKind::DaemonSet);
        is_per_node || self.new.number("/spec/replicas") != Some(0)
    }

    /// The workload replaces its Pods by itself.
    fn rolls(&self) -> bool {
        let kind = self.new.text("/spec/updateStrategy/type");
        match self.kind {
            WorkloadKind::StatefulSet | WorkloadKind::AdvancedStatefulSet => {
                matches!(kind, "" | "RollingUpdate")
            }
            WorkloadKind::StatefulSetLike => kind == "RollingUpdate",
            _ => true,
        }
    }

    /// Pods of one version alone are there: traffic can't be told apart between more than two.
    fn is_uniform(&self) -> bool {
        let count = |pointer| self.new.number(pointer).unwrap_or(0);
        self.kind != WorkloadKind::CloneSet || count("/status/replicas") == count("/status/updatedReplicas")
    }

    fn freeze(&self, frozen: &mut Value) -> Result<(), Unread> {
        let is_routed = !self.rollout.spec.strategy.traffic_routings().is_empty();
        // Also while it ends a release holds the workload, with Pods of two versions.
        let is_released = self.is_running || self.rollout.status.phase == Phase::Progressing;
        let needs_one_version = is_routed && !is_released;
        if needs_one_version && !self.is_uniform() {
            return Ok(());
        }
        match self.kind {
            WorkloadKind::Deployment => {
                let sets = replica_sets(self.old, self.context.view)?;
                let active = || sets.iter().rev().filter(|set| set.number("/spec/replicas") != Some(0));
                let largest = active().max_by_key(|set| set.number("/spec/replicas"));
                let Some(stable) = largest.filter(|_| !needs_one_version || active().count() == 1) else {
                    return Ok(());
                };
                let revision = stable.label(POD_TEMPLATE_HASH).unwrap_or_default();
                set(frozen, &["metadata", "labels", STABLE_REVISION], json!(revision));
                set(frozen, &["spec", "paused"], json!(true));
            }
            WorkloadKind::DaemonSet => {
                let kind = frozen.text("/spec/updateStrategy/type").to_owned();
                if frozen.annotation(DAEMONSET_ORIGINAL_UPDATE_STRATEGY).is_none() {
                    let path = ["metadata", "annotations", DAEMONSET_ORIGINAL_UPDATE_STRATEGY];
                    set(frozen, &path, json!(kind));
                }
                set(frozen, &["spec", "updateStrategy", "type"], json!("OnDelete"));
            }
            kind => {
                let all = if kind == WorkloadKind::CloneSet { json!("100%") } else { json!(ALL_PODS) };
                if let Some(path) = partition::path(kind, frozen) {
                    set(frozen, path, all);
                }
                if frozen.annotation(HELD_PARTITION).is_some() {
                    note_partition(kind, frozen);
                }
            }
        }
        let running = json!({"rolloutName": self.rollout.metadata.name}).to_string();
        set(frozen, &["metadata", "annotations", IN_PROGRESSING], json!(running));
        Ok(())
    }
}
