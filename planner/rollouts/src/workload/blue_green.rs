//! Releases for which the workload grows to a second set of Pods. New Pods never count as available, so none takes the
//! place of an old one until the release ends.

use api::annotations::ORIGINAL_DEPLOYMENT_STRATEGY;
use api::group_and_version;
use api::kinds::rollout::WorkloadRef;
use api::kinds::shared::IntOrString;
use api::labels::{POD_TEMPLATE_HASH, STABLE_REVISION};
use serde_json::{Value, json};
use values::percent::{Rounding, scaled};

use super::batch::Batch;
use super::partition::CLONE_SET_PARTITION;
use super::task::{End, Task};
use super::{Workload, WorkloadKind, autoscaler};
use crate::deployment::replica_sets;
use crate::draft::{Draft, json_annotation, set, value};
use crate::object::{Object as _, ObjectName};
use crate::view::Unread;
use crate::write::Write;

/// No Pod has ever been ready for so many seconds.
const NEVER_AVAILABLE: i32 = i32::MAX - 1;
/// Longer than that, as Kubernetes wants it.
const NEVER_LATE: i32 = i32::MAX;
const MIN_READY: [&str; 2] = ["spec", "minReadySeconds"];
const DEADLINE: [&str; 2] = ["spec", "progressDeadlineSeconds"];

/// The members of a kind that say how it updates.
struct Fields {
    kind: &'static [&'static str],
    max_surge: &'static [&'static str],
    max_unavailable: &'static [&'static str],
    paused: &'static [&'static str],
}

const DEPLOYMENT: Fields = Fields {
    kind: &["spec", "strategy", "type"],
    max_surge: &["spec", "strategy", "rollingUpdate", "maxSurge"],
    max_unavailable: &["spec", "strategy", "rollingUpdate", "maxUnavailable"],
    paused: &["spec", "paused"],
};

const CLONE_SET: Fields = Fields {
    kind: &["spec", "updateStrategy", "type"],
    max_surge: &["spec", "updateStrategy", "maxSurge"],
    max_unavailable: &["spec", "updateStrategy", "maxUnavailable"],
    paused: &["spec", "updateStrategy", "paused"],
};

/// A CloneSet of v1beta1, which comes to webhooks alone.
const NEWER_CLONE_SET: Fields = Fields {
    kind: &["spec", "updateStrategy", "type"],
    max_surge: &["spec", "updateStrategy", "rollingUpdate", "maxSurge"],
    max_unavailable: &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"],
    paused: &["spec", "updateStrategy", "rollingUpdate", "paused"],
};

/// Where the surge that the release allows is saved, beside the settings before it.
const HELD_SURGE: [&str; 1] = ["heldSurge"];

impl Fields {
    /// The settings that a release changes: what they are called where they are saved, and where they are.
    fn settings(&self) -> [(&'static str, &'static [&'static str]); 4] {
        [
            ("maxSurge", self.max_surge),
            ("maxUnavailable", self.max_unavailable),
            ("minReadySeconds", &MIN_READY),
            ("progressDeadlineSeconds", &DEADLINE),
        ]
    }
}

fn fields(object: &Value) -> &'static Fields {
    match (object.text("/kind"), group_and_version(object.text("/apiVersion")).1) {
        ("CloneSet", "v1alpha1") => &CLONE_SET,
        ("CloneSet", _) => &NEWER_CLONE_SET,
        _ => &DEPLOYMENT,
    }
}

fn reference(workload: &Workload) -> WorkloadRef {
    let ObjectName { api_version, kind, name, .. } = workload.name.clone();
    WorkloadRef { api_version, kind, name }
}

/// Holds the workload: saves its settings, and lets no new Pod count as available.
pub(super) fn hold(task: &mut Task<'_>) -> Result<(), Unread> {
    let workload = task.workload;
    hold_autoscalers(task)?;
    if workload.kind == WorkloadKind::Deployment {
        task.writes.extend(hold_stable_set(workload, task)?);
    } else {
        task.draft.resume(fields(&workload.object).paused);
    }
    hold_settings(task.draft.edit(), true);
    Ok(())
}

/// Holds again what somebody has let go.
pub(super) fn keep_held(task: &mut Task<'_>) -> Result<(), Unread> {
    hold_autoscalers(task)?;
    hold_settings(task.draft.edit(), false);
    Ok(())
}

fn hold_autoscalers(task: &mut Task<'_>) -> Result<(), Unread> {
    let workload = task.workload;
    task.writes.extend(autoscaler::hold(&reference(workload), &workload.name.namespace, task.view)?);
    Ok(())
}

/// Puts the settings of a workload to what its release holds them at, and saves those that its user wants in the end.
/// Where it `begins`, none are saved yet, or those that another release saved.
pub(crate) fn hold_settings(object: &mut Value, begins: bool) {
    let fields = fields(object);
    let is_saved = object.annotation(ORIGINAL_DEPLOYMENT_STRATEGY).is_some();
    if !is_saved && !begins {
        return;
    }
    let mut saved = json_annotation(object, ORIGINAL_DEPLOYMENT_STRATEGY);
    let surge = if begins { 1.into() } else { value(&saved, &HELD_SURGE) };
    // OpenKruise does not say which surge it holds.
    let surge = if surge.is_null() { value(object, fields.max_surge) } else { surge };
    set(&mut saved, &HELD_SURGE, surge.clone());
    let held = [surge, 0.into(), NEVER_AVAILABLE.into(), NEVER_LATE.into()];
    for ((name, path), held) in fields.settings().into_iter().zip(held) {
        let present = value(object, path);
        // A CloneSet without a deadline stays without one.
        let is_free = present.is_null() && path == DEADLINE && object.text("/kind") == "CloneSet";
        if !is_saved || present != held && !(begins && path == fields.max_surge) {
            set(&mut saved, &[name], present);
        }
        if !is_free {
            set(object, path, held);
        }
    }
    // OpenKruise does not know this one; it has only Deployments that roll.
    if value(object, fields.kind) == "Recreate" {
        set(&mut saved, &["type"], "Recreate".into());
    }
    if object.text("/kind") == "Deployment" {
        set(object, fields.kind, "RollingUpdate".into());
    }
    set(object, &["metadata", "annotations", ORIGINAL_DEPLOYMENT_STRATEGY], saved.to_string().into());
}

/// After a rollback the old ReplicaSet is the new one, whose Pods must not count as available at once either.
fn hold_stable_set(workload: &Workload, task: &Task<'_>) -> Result<Option<Write>, Unread> {
    let sets = replica_sets(&workload.object, task.view)?;
    let is_stable = |set: &&Value| set.label(POD_TEMPLATE_HASH) == Some(&*workload.stable_revision);
    let held = Some(i64::from(NEVER_AVAILABLE));
    let stable = sets.into_iter().find(is_stable).filter(|set| set.number("/spec/minReadySeconds") != held);
    Ok(stable.map(|set| {
        let name = ObjectName::new("apps/v1", "ReplicaSet", &workload.name.namespace, set.name());
        Write::patch(&name, set, json!({"spec": {"minReadySeconds": NEVER_AVAILABLE}}))
    }))
}

/// Lets the workload grow by the size of a batch; never shrinks it.
pub(super) fn open(task: &mut Task<'_>, batch: &Batch<'_>) {
    let fields = fields(&task.workload.object);
    let present: Option<IntOrString> =
        serde_json::from_value(value(task.draft.object(), fields.max_surge)).ok();
    let count = |size: &IntOrString| scaled(size, task.workload.replicas, Rounding::Up).unwrap_or(0);
    if present.as_ref().map_or(0, count) < count(batch.size) {
        task.draft.set(fields.max_surge, json!(batch.size));
        let mut saved = json_annotation(task.draft.object(), ORIGINAL_DEPLOYMENT_STRATEGY);
        set(&mut saved, &HELD_SURGE, json!(batch.size));
        task.draft.annotate(ORIGINAL_DEPLOYMENT_STRATEGY, saved.to_string());
    }
    task.draft.resume(fields.paused);
    if task.workload.kind == WorkloadKind::CloneSet {
        task.draft.open_partition(&CLONE_SET_PARTITION);
    }
}

/// Gives the workload its settings back, waits until it has rolled, and lets its autoscaler act again.
pub(super) fn end(task: &mut Task<'_>, end: End) -> Result<Option<String>, Unread> {
    let workload = task.workload;
    if end == End::Continue {
        return Ok(None);
    }
    let fields = fields(&workload.object);
    restore(&mut task.draft, fields);
    task.draft.resume(fields.paused);
    task.draft.remove_label(STABLE_REVISION);
    if workload.kind == WorkloadKind::CloneSet {
        task.draft.open_partition(&CLONE_SET_PARTITION);
    }
    let Workload { replicas, updated_replicas, updated_ready_replicas, .. } = *workload;
    let is_rolled = updated_replicas >= replicas
        && updated_replicas == workload.status_replicas
        && updated_ready_replicas >= replicas;
    if task.is_pending() || !workload.is_observed() || !is_rolled {
        let ObjectName { kind, name, .. } = &workload.name;
        let pods =
            format!("{updated_replicas} of {replicas} pods new, {updated_ready_replicas} of these ready");
        return Ok(Some(format!("{kind} `{name}` rolls: {pods}")));
    }
    task.writes.extend(autoscaler::release(&reference(workload), &workload.name.namespace, task.view)?);
    Ok(None)
}

fn restore(draft: &mut Draft<'_>, fields: &Fields) {
    if draft.object().annotation(ORIGINAL_DEPLOYMENT_STRATEGY).is_none() {
        return;
    }
    let settings = json_annotation(draft.object(), ORIGINAL_DEPLOYMENT_STRATEGY);
    for (name, path) in fields.settings() {
        draft.set(path, value(&settings, &[name]));
    }
    if settings.text("/type") == "Recreate" {
        draft.set(fields.kind, "Recreate");
        draft.set(&["spec", "strategy", "rollingUpdate"], Value::Null);
    }
    draft.remove_annotation(ORIGINAL_DEPLOYMENT_STRATEGY);
}
