//! Stops a workload at the moment its template changes, so that its release begins with no new Pod
//! (docs/behaviour/rollouts.md#freezing).
//!
//! ```text
//!   deployment   what a Deployment may not change while its release is running
//! ```

use std::sync::Arc;

use api::annotations::{DAEMONSET_ORIGINAL_UPDATE_STRATEGY, IN_PROGRESSING};
use api::features::FeatureGates;
use api::group_and_version;
use api::kinds::rollout::{Phase, Rollout, WorkloadRef};
use api::labels::{POD_TEMPLATE_HASH, STABLE_REVISION};
use pod::template::comparison;
use pod::template::complete::with_defaults;
use serde_json::{Map, Value, json};
use values::json_patch::{Patch, edits};

use crate::deployment::replica_sets;
use crate::object::Object as _;
use crate::reference;
use crate::view::{Unread, View};
use crate::workload::{Style, WorkloadKind, given_rollout_id};

mod deployment;
#[cfg(test)]
mod tests;

/// A partition that keeps all Pods, however many there are: the most ordinals that a StatefulSet has had.
const ALL_PODS: i32 = 32_767;

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
    let workload = workload_ref(new);
    let is_held_by = |rollout: &&Arc<Rollout>| reference::is_same(&rollout.spec.workload_ref, &workload);
    let rollout = context.rollouts.iter().find(is_held_by);
    let (Some(rollout), Some(kind)) = (rollout, WorkloadKind::of(&workload)) else {
        return Ok(Patch::default());
    };
    let update = Update { old, new, rollout, kind, context };
    let mut frozen = new.clone();
    if update.is_running() && update.kind == WorkloadKind::Deployment {
        let style = Style::of(&rollout.spec.strategy, &workload);
        deployment::hold(&mut frozen, old, style, update.changes_template());
    } else if update.begins_release() {
        update.freeze(&mut frozen)?;
    } else {
        return Ok(Patch::default());
    }
    Ok(edits(&new.to_string(), &frozen.to_string()).unwrap_or_default())
}

fn workload_ref(workload: &Value) -> WorkloadRef {
    let text = |pointer| workload.text(pointer).to_owned();
    WorkloadRef { api_version: text("/apiVersion"), kind: text("/kind"), name: text("/metadata/name") }
}

/// An update of a workload that has a Rollout.
struct Update<'a> {
    old: &'a Value,
    new: &'a Value,
    rollout: &'a Rollout,
    kind: WorkloadKind,
    context: &'a Context<'a>,
}

impl Update<'_> {
    fn is_running(&self) -> bool {
        self.new.annotation(IN_PROGRESSING).is_some()
    }

    /// The template says something else, whatever its author leaves to defaults.
    fn changes_template(&self) -> bool {
        let template = |workload: &Value| {
            let mut template = workload.pointer("/spec/template").cloned().unwrap_or_default();
            if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
                labels.remove(POD_TEMPLATE_HASH);
            }
            template
        };
        let (old, new) = (template(self.old), template(self.new));
        let complete = |template| with_defaults(template, self.context.gates);
        !comparison::is_same(&old, &new) && !comparison::is_same(&complete(&old), &complete(&new))
    }

    fn begins_release(&self) -> bool {
        let rollout = self.rollout;
        let acts = rollout.metadata.deletion_timestamp.is_none()
            && !rollout.spec.disabled
            && rollout.status.phase != Phase::Disabled
            && rollout.spec.strategy.kind().is_some();
        let id = given_rollout_id(self.new);
        // Where the user names releases a template alone begins none, but it never passes by one that is running.
        let is_new = match id {
            Some(_) if id != given_rollout_id(self.old) => true,
            Some(_) => self.is_running() && self.changes_template(),
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
        if is_routed && !self.is_running() && !self.is_uniform() {
            return Ok(());
        }
        match self.kind {
            WorkloadKind::Deployment => {
                let sets = replica_sets(self.old, self.context.view)?;
                let mut active = sets.iter().filter(|set| set.number("/spec/replicas") != Some(0));
                let Some(stable) = active.next() else { return Ok(()) };
                if is_routed && active.next().is_some() {
                    return Ok(());
                }
                let revision = stable.label(POD_TEMPLATE_HASH).unwrap_or_default();
                set(frozen, &["metadata", "labels", STABLE_REVISION], json!(revision));
                set(frozen, &["spec", "paused"], json!(true));
            }
            WorkloadKind::CloneSet => {
                let is_older = group_and_version(frozen.text("/apiVersion")).1 == "v1alpha1";
                let in_older = ["spec", "updateStrategy", "partition"];
                let path = ["spec", "updateStrategy", "rollingUpdate", "partition"];
                set(frozen, if is_older { &in_older } else { &path }, json!("100%"));
            }
            WorkloadKind::DaemonSet => {
                let kind = frozen.text("/spec/updateStrategy/type").to_owned();
                if frozen.annotation(DAEMONSET_ORIGINAL_UPDATE_STRATEGY).is_none() {
                    let path = ["metadata", "annotations", DAEMONSET_ORIGINAL_UPDATE_STRATEGY];
                    set(frozen, &path, json!(kind));
                }
                set(frozen, &["spec", "updateStrategy", "type"], json!("OnDelete"));
            }
            WorkloadKind::AdvancedDaemonSet
            | WorkloadKind::StatefulSet
            | WorkloadKind::AdvancedStatefulSet
            | WorkloadKind::StatefulSetLike => {
                let path = ["spec", "updateStrategy", "rollingUpdate", "partition"];
                set(frozen, &path, json!(ALL_PODS));
            }
        }
        let running = json!({"rolloutName": self.rollout.metadata.name}).to_string();
        set(frozen, &["metadata", "annotations", IN_PROGRESSING], json!(running));
        Ok(())
    }
}

/// Sets a member of nested objects, which are made where they are missing.
fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Some(members) = object.as_object_mut() {
        set(members.entry(*name).or_insert(Value::Null), rest, value);
    }
}
