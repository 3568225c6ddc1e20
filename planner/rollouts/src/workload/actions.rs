//! What a release does to its workload: holds it, opens it batch by batch, and hands it back
//! (docs/behaviour/rollouts.md#workloads).

use api::annotations::{BATCH_RELEASE_CONTROL, ROLLOUT_BATCH};
use api::kinds::batchrelease::BatchRelease;
use api::kinds::rollout::WorkloadRef;

use super::batch::Batch;
use super::task::{End, Task, control_info};
use super::{Style, WorkloadKind, autoscaler, blue_green, canary, partition};
use crate::draft::json_annotation;
use crate::object::Object as _;
use crate::view::{Unread, View};
use crate::write::Write;

/// Holds the workload where this release does not hold it yet: no Pod gets the new version before its batch.
pub(crate) fn hold(task: &mut Task<'_>) -> Result<(), Unread> {
    let holder = json_annotation(&task.workload.object, BATCH_RELEASE_CONTROL);
    if holder.text("/uid") == task.release.metadata.uid {
        return Ok(());
    }
    task.draft.annotate(BATCH_RELEASE_CONTROL, control_info(task.release));
    match task.workload.style {
        Style::Partition => partition::hold(task),
        Style::BlueGreen => blue_green::hold(task)?,
        Style::Canary => {}
    }
    Ok(())
}

/// Holds again what somebody has let go since the release began.
pub(crate) fn keep_held(task: &mut Task<'_>) -> Result<(), Unread> {
    match (task.workload.style, task.workload.kind) {
        (Style::BlueGreen, _) => blue_green::keep_held(task)?,
        (_, WorkloadKind::Deployment) => task.draft.set(&["spec", "paused"], true),
        (_, kind) => partition::hold_partition(kind, task.draft.edit()),
    }
    Ok(())
}

/// Notes how far the workload is open, so that no other write opens it further.
pub(crate) fn note_held(task: &mut Task<'_>) {
    if task.workload.style == Style::Partition {
        partition::note_partition(task.workload.kind, task.draft.edit());
    }
}

/// Lets a batch of Pods become new. What is open further than that is closed only where it `closes`.
pub(crate) fn open(task: &mut Task<'_>, batch: &Batch<'_>, closes: bool) -> Result<(), Unread> {
    match task.workload.style {
        Style::Partition => partition::open(task, batch, closes),
        Style::BlueGreen => blue_green::open(task, batch),
        Style::Canary => canary::open(task, batch, closes)?,
    }
    Ok(())
}

/// Ends the release for its workload. Returns what that waits for; `None` where nothing is left to do.
pub(crate) fn end(task: &mut Task<'_>, end: End) -> Result<Option<String>, Unread> {
    task.draft.remove_annotation(BATCH_RELEASE_CONTROL);
    task.draft.remove_annotation(ROLLOUT_BATCH);
    match task.workload.style {
        Style::Partition => {
            partition::end(task, end);
            Ok(None)
        }
        Style::BlueGreen => blue_green::end(task, end),
        Style::Canary => canary::end(task, end),
    }
}

/// Undoes what a release did beside a workload that is gone.
pub(crate) fn clean_up(
    release: &BatchRelease,
    reference: &WorkloadRef,
    style: Style,
    view: &View,
) -> Result<Vec<Write>, Unread> {
    let namespace = release.metadata.namespace.as_str();
    match style {
        Style::Partition => Ok(Vec::new()),
        Style::BlueGreen => autoscaler::release(reference, namespace, view),
        Style::Canary => canary::removals(release, &reference.name, view),
    }
}
