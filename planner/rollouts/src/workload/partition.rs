//! Releases that replace the Pods of the workload itself.

use api::annotations::{
    DAEMONSET_ADVANCED_CONTROL, DAEMONSET_ORIGINAL_UPDATE_STRATEGY, DAEMONSET_REVISION,
    DEPLOYMENT_EXTRA_STATUS, DEPLOYMENT_STRATEGY, HELD_PARTITION,
};
use api::group_and_version;
use api::kinds::shared::IntOrString;
use api::labels::{CONTROLLED_BY_ADVANCED_DEPLOYMENT, STABLE_REVISION};
use serde_json::{Value, json};
use values::percent;

use super::WorkloadKind;
use super::batch::Batch;
use super::task::{End, Task};
use crate::draft::{json_annotation, set, value};
use crate::object::Object as _;

/// The partition that keeps all Pods old, however many there will be: the most ordinals that a StatefulSet has had.
pub(crate) const ALL_PODS: i32 = 32_767;
pub(super) const CLONE_SET_PARTITION: [&str; 3] = ["spec", "updateStrategy", "partition"];
const CLONE_SET_PAUSED: [&str; 3] = ["spec", "updateStrategy", "paused"];
const PARTITION: [&str; 4] = ["spec", "updateStrategy", "rollingUpdate", "partition"];
const PAUSED: [&str; 4] = ["spec", "updateStrategy", "rollingUpdate", "paused"];
const UPDATE_TYPE: [&str; 3] = ["spec", "updateStrategy", "type"];

/// Where a workload says how many of its Pods stay old; `None` for kinds that do not.
pub(crate) fn path(kind: WorkloadKind, object: &Value) -> Option<&'static [&'static str]> {
    match kind {
        WorkloadKind::CloneSet if group_and_version(object.text("/apiVersion")).1 == "v1alpha1" => {
            Some(&CLONE_SET_PARTITION)
        }
        WorkloadKind::Deployment | WorkloadKind::DaemonSet => None,
        _ => Some(&PARTITION),
    }
}

/// Notes the partition that the release holds, so that no other write opens the workload further.
pub(crate) fn note_partition(kind: WorkloadKind, object: &mut Value) {
    if let Some(path) = path(kind, object) {
        let held = value(object, path).to_string();
        set(object, &["metadata", "annotations", HELD_PARTITION], held.into());
    }
}

/// Puts the partition back that the release holds where the workload is open further.
pub(crate) fn hold_partition(kind: WorkloadKind, object: &mut Value) {
    let held = object.annotation(HELD_PARTITION).and_then(|held| serde_json::from_str(held).ok());
    if let (Some(path), Some(held)) = (path(kind, object), held)
        && kept(kind, object, &value(object, path)) < kept(kind, object, &held)
    {
        set(object, path, held);
    }
}

/// How many Pods a partition keeps old.
fn kept(kind: WorkloadKind, object: &Value, partition: &Value) -> i32 {
    let pods = if kind.is_daemon() { "/status/desiredNumberScheduled" } else { "/spec/replicas" };
    let pods = object.number(pods).and_then(|pods| i32::try_from(pods).ok()).unwrap_or(1);
    percent::partition(number_or_share(partition).as_ref(), pods)
}

/// Holds the workload: all its Pods stay old.
pub(super) fn hold(task: &mut Task<'_>) {
    let draft = &mut task.draft;
    match task.workload.kind {
        WorkloadKind::CloneSet => {
            draft.set(&CLONE_SET_PARTITION, "100%");
            draft.resume(&CLONE_SET_PAUSED);
        }
        WorkloadKind::StatefulSet | WorkloadKind::AdvancedStatefulSet | WorkloadKind::StatefulSetLike => {
            draft.set(&PARTITION, ALL_PODS);
            draft.resume(&PAUSED);
        }
        WorkloadKind::AdvancedDaemonSet => {
            draft.set(&PARTITION, task.workload.replicas);
            draft.resume(&PAUSED);
            note_revisions(task);
        }
        WorkloadKind::DaemonSet => {
            if draft.object().annotation(DAEMONSET_ORIGINAL_UPDATE_STRATEGY).is_none() {
                let before = draft.object().text("/spec/updateStrategy/type");
                let before = if before.is_empty() { "RollingUpdate" } else { before }.to_owned();
                draft.annotate(DAEMONSET_ORIGINAL_UPDATE_STRATEGY, before);
            }
            draft.set(&UPDATE_TYPE, "OnDelete");
            note_revisions(task);
        }
        WorkloadKind::Deployment => hold_deployment(task),
    }
}

/// Kubernetes' own controller leaves a paused Deployment alone. The type keeps it from rolling at once where somebody
/// lets it go.
fn hold_deployment(task: &mut Task<'_>) {
    let draft = &mut task.draft;
    let mut strategy = json_annotation(draft.object(), DEPLOYMENT_STRATEGY);
    let rolling_update = value(draft.object(), &["spec", "strategy", "rollingUpdate"]);
    if !rolling_update.is_null() {
        set(&mut strategy, &["rollingUpdate"], rolling_update);
    }
    // OpenKruise does not know this one; it has only Deployments that roll.
    if strategy.text("/rollingStyle").is_empty() && draft.object().text("/spec/strategy/type") == "Recreate" {
        set(&mut strategy, &["type"], "Recreate".into());
    }
    set(&mut strategy, &["rollingStyle"], "Partition".into());
    set(&mut strategy, &["paused"], false.into());
    set(&mut strategy, &["partition"], 0.into());
    draft.annotate(DEPLOYMENT_STRATEGY, strategy.to_string());
    draft.set(&["metadata", "labels", CONTROLLED_BY_ADVANCED_DEPLOYMENT], "true");
    if !task.workload.stable_revision.is_empty() {
        draft.set(&["metadata", "labels", STABLE_REVISION], task.workload.stable_revision.as_str());
    }
    draft.set(&["spec", "paused"], true);
    draft.set(&["spec", "strategy", "type"], "Recreate");
    draft.set(&["spec", "strategy", "rollingUpdate"], Value::Null);
}

/// A DaemonSet does not say which version is stable. The first of several releases notes it.
fn note_revisions(task: &mut Task<'_>) {
    let workload = task.workload;
    let mut revisions = json_annotation(&workload.object, DAEMONSET_REVISION);
    set(&mut revisions, &["stable-revision"], workload.stable_revision.as_str().into());
    set(&mut revisions, &["canary-revision"], workload.update_revision.as_str().into());
    task.draft.annotate(DAEMONSET_REVISION, revisions.to_string());
}

/// Opens the workload as far as a batch goes.
pub(super) fn open(task: &mut Task<'_>, batch: &Batch<'_>, closes: bool) {
    let replicas = task.workload.replicas;
    let is_due = |present: i32, wanted: i32| wanted < present || closes && wanted != present;
    match task.workload.kind {
        WorkloadKind::CloneSet => {
            let wanted = batch.clone_set_partition(replicas);
            let present = number_or_share(&value(task.draft.object(), &CLONE_SET_PARTITION));
            let kept = |partition: Option<&IntOrString>| percent::partition(partition, replicas);
            if is_due(kept(present.as_ref()), kept(Some(&wanted))) {
                task.draft.set(&CLONE_SET_PARTITION, json!(wanted));
            }
        }
        WorkloadKind::DaemonSet => open_daemonset(task, batch, is_due),
        WorkloadKind::Deployment => open_deployment(task, batch),
        _ => {
            let present = number_or_share(&value(task.draft.object(), &PARTITION));
            let scaled = |value| percent::scaled(&value, replicas, percent::Rounding::Up);
            if is_due(present.and_then(scaled).unwrap_or(0), batch.stable) {
                task.draft.set(&PARTITION, batch.stable);
            }
        }
    }
}

/// The controller of DaemonSets reads how many Pods stay old, of which version.
fn open_daemonset(task: &mut Task<'_>, batch: &Batch<'_>, is_due: impl Fn(i32, i32) -> bool) {
    let revision = task.workload.update_revision.as_str();
    let mut control = json_annotation(task.draft.object(), DAEMONSET_ADVANCED_CONTROL);
    let present = control.text("/partition").parse().ok();
    let present = present.filter(|_| control.text("/batch-revision") == revision);
    if present.is_none_or(|present| is_due(present, batch.stable)) {
        set(&mut control, &["partition"], batch.stable.to_string().into());
        set(&mut control, &["batch-revision"], revision.into());
        task.draft.annotate(DAEMONSET_ADVANCED_CONTROL, control.to_string());
    }
}

/// The controller of Deployments reads how many Pods are to be new; a share grows with the Deployment.
fn open_deployment(task: &mut Task<'_>, batch: &Batch<'_>) {
    let mut strategy = json_annotation(task.draft.object(), DEPLOYMENT_STRATEGY);
    let present = number_or_share(&value(&strategy, &["partition"]));
    let count = |size: Option<&IntOrString>| percent::partition(size, task.workload.replicas);
    let is_raised = count(Some(batch.size)) > count(present.as_ref());
    if is_raised {
        set(&mut strategy, &["partition"], json!(batch.size));
    }
    if is_raised || value(&strategy, &["paused"]) == true {
        set(&mut strategy, &["paused"], false.into());
        task.draft.annotate(DEPLOYMENT_STRATEGY, strategy.to_string());
    }
}

/// Hands the workload back.
pub(super) fn end(task: &mut Task<'_>, end: End) {
    let draft = &mut task.draft;
    if end != End::Continue {
        draft.remove_annotation(HELD_PARTITION);
    }
    match (task.workload.kind, end) {
        (_, End::Continue) => {}
        (WorkloadKind::Deployment, _) => end_deployment(task, end == End::Leave),
        (WorkloadKind::DaemonSet, _) => {
            draft.remove_annotation(DAEMONSET_ADVANCED_CONTROL);
            draft.remove_annotation(DAEMONSET_REVISION);
            if end == End::HandBack {
                let before = draft.object().annotation(DAEMONSET_ORIGINAL_UPDATE_STRATEGY);
                let before = before.filter(|kind| !kind.is_empty()).unwrap_or("RollingUpdate").to_owned();
                draft.set(&UPDATE_TYPE, before);
                draft.remove_annotation(DAEMONSET_ORIGINAL_UPDATE_STRATEGY);
            }
        }
        (WorkloadKind::CloneSet, End::HandBack) => {
            draft.open_partition(&CLONE_SET_PARTITION);
            draft.resume(&CLONE_SET_PAUSED);
        }
        (_, End::HandBack) => {
            draft.open_partition(&PARTITION);
            draft.resume(&PAUSED);
            draft.remove_annotation(DAEMONSET_REVISION);
        }
        (_, End::Leave) => draft.remove_annotation(DAEMONSET_REVISION),
    }
}

/// Gives a Deployment its own way to update back. One that is left where it is stays paused.
fn end_deployment(task: &mut Task<'_>, stays_paused: bool) {
    let draft = &mut task.draft;
    let strategy = json_annotation(draft.object(), DEPLOYMENT_STRATEGY);
    let is_held = !strategy.text("/rollingStyle").is_empty();
    let is_own = strategy.text("/type") == "Recreate";
    if is_held && !is_own && draft.object().text("/spec/strategy/type") == "Recreate" {
        draft.set(&["spec", "strategy", "type"], "RollingUpdate");
        draft.set(&["spec", "strategy", "rollingUpdate"], value(&strategy, &["rollingUpdate"]));
    }
    if stays_paused {
        draft.set(&["spec", "paused"], true);
    } else {
        draft.resume(&["spec", "paused"]);
    }
    for annotation in [DEPLOYMENT_STRATEGY, DEPLOYMENT_EXTRA_STATUS] {
        draft.remove_annotation(annotation);
    }
    for label in [STABLE_REVISION, CONTROLLED_BY_ADVANCED_DEPLOYMENT] {
        draft.remove_label(label);
    }
}

fn number_or_share(value: &Value) -> Option<IntOrString> {
    serde_json::from_value(value.clone()).ok()
}
