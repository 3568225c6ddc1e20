//! Labels that tell which Pods came with which batch of which release.

use std::collections::BTreeMap;

use api::annotations::ROLLOUT_BATCH;
use api::kinds::batchrelease::{BatchRelease, BatchStatus};
use api::labels::{CONTROLLER_REVISION_HASH, NO_NEED_UPDATE, ROLLOUT_BATCH_ID, ROLLOUT_ID};
use kinds::workload::rollout_batch::annotation;
use pod::observed::ObservedPod;
use serde_json::json;

use crate::object::ObjectName;
use crate::view::{Unread, View};
use crate::workload::batch::{Batch, planned};
use crate::workload::task::Task;
use crate::workload::{Workload, WorkloadKind};
use crate::write::Write;

/// The labels of the Pods of a release.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Labels {
    /// There are new Pods, and they are to be labelled.
    pub(super) are_listed: bool,
    /// How many Pods belong to the release once all is written.
    pub(super) labelled: i32,
    /// What is to be written.
    pub(super) writes: Vec<Write>,
}

/// Says on the workload which batch begins, where its controller labels the Pods. `batch` counts from 0.
pub(super) fn announce(task: &mut Task<'_>, batch: i32) {
    let id = &task.release.spec.release_plan.rollout_id;
    if !id.is_empty() && task.workload.kind.labels_its_pods() {
        task.draft.annotate(ROLLOUT_BATCH, annotation(id, batch.saturating_add(1)));
    }
}

/// Labels that Pods of all batches up to the present one lack. Each batch has its share of new Pods; the present one is
/// filled first. Pods that had the new version before a rollback in batches have the room that the others leave.
pub(super) fn of_batches(
    release: &BatchRelease,
    workload: &Workload,
    present: &BatchStatus,
    batch: &Batch<'_>,
    view: &View,
) -> Result<Labels, Unread> {
    let id = release.spec.release_plan.rollout_id.as_str();
    if id.is_empty() {
        return Ok(Labels::default());
    }
    let pods = workload.new_pods(view)?;
    let is_marked = |pod: &ObservedPod| pod.label(NO_NEED_UPDATE) == Some(id);
    let mut room = shares(release, workload, present.current_batch);
    let mut room_for_marked = batch.planned - (batch.updated - present.no_need_update_replicas.unwrap_or(0));
    let mut labels = Labels { are_listed: !pods.is_empty(), ..Labels::default() };
    let mut unlabelled = Vec::new();
    for pod in pods {
        let number = pod.label(ROLLOUT_BATCH_ID).filter(|_| pod.label(ROLLOUT_ID) == Some(id));
        let number: Option<usize> = number.and_then(|number| number.parse().ok());
        match number.and_then(|number| room.get_mut(number.checked_sub(1)?)) {
            Some(room) => {
                *room -= 1;
                room_for_marked -= i32::from(is_marked(pod));
                labels.labelled += 1;
            }
            None => unlabelled.push(&**pod),
        }
    }
    let room_for_marked = usize::try_from(room_for_marked).unwrap_or(0);
    let (marked, others): (Vec<_>, Vec<_>) = unlabelled.into_iter().partition(|pod| is_marked(pod));
    let candidates = others.into_iter().chain(marked.into_iter().take(room_for_marked));
    let batches = (1..).zip(room).collect::<Vec<(usize, i32)>>();
    let places = batches.into_iter().rev().flat_map(|(number, room)| (0..room.max(0)).map(move |_| number));
    for (pod, number) in candidates.zip(places) {
        labels.labelled += 1;
        labels.writes.push(labelled(pod, workload, id, number));
    }
    Ok(labels)
}

/// How many Pods each batch up to the present one adds.
fn shares(release: &BatchRelease, workload: &Workload, present: i32) -> Vec<i32> {
    let batches = release.spec.release_plan.batches.iter();
    let mut before = 0;
    let sizes = batches.take(usize::try_from(present).unwrap_or(0) + 1);
    let shares = sizes.map(|batch| {
        let planned = planned(&batch.canary_replicas, workload).max(before);
        planned - std::mem::replace(&mut before, planned)
    });
    shares.collect()
}

fn labelled(pod: &ObservedPod, workload: &Workload, id: &str, number: usize) -> Write {
    let number = number.to_string();
    let mut labels = BTreeMap::from([(ROLLOUT_ID, id), (ROLLOUT_BATCH_ID, &*number)]);
    if workload.kind == WorkloadKind::Deployment {
        labels.insert(CONTROLLER_REVISION_HASH, &workload.update_revision);
    }
    write(pod, &labels)
}

/// Marks the Pods that have the wanted version before a rollback in batches begins, with the identity of the release.
pub(super) fn no_need_update(
    release: &BatchRelease,
    workload: &Workload,
    view: &View,
) -> Result<Vec<Write>, Unread> {
    let id = release.spec.release_plan.rollout_id.as_str();
    if id.is_empty() {
        return Ok(Vec::new());
    }
    let unmarked = workload.new_pods(view)?.into_iter().filter(|pod| pod.label(NO_NEED_UPDATE) != Some(id));
    Ok(unmarked.map(|pod| write(pod, &BTreeMap::from([(NO_NEED_UPDATE, id)]))).collect())
}

fn write(pod: &ObservedPod, labels: &BTreeMap<&str, &str>) -> Write {
    let name = ObjectName::new("v1", "Pod", &pod.metadata.namespace, &pod.metadata.name);
    // Others change Pods all the time: only that it is still this Pod matters.
    let patch = json!({"metadata": {"uid": pod.metadata.uid, "labels": labels}});
    Write::Patch { name, subresource: "", patch }
}
