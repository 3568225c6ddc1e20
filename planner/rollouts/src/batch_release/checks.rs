//! What has changed since the last plan, and where the release goes on because of it.

use api::kinds::batchrelease::{BatchRelease, BatchState, BatchStatus, Phase, Status};

use super::{is_rollback_in_batches, plan_hash};
use crate::workload::Workload;

/// The release has had a hold on its workload.
pub(super) fn has_begun(status: &Status) -> bool {
    matches!(status.phase, Phase::Progressing | Phase::Finalizing)
}

/// Begins a release that is new, whose batches have changed, or whose status can't be.
pub(super) fn begin(release: &BatchRelease, status: &mut Status) {
    let plan = &release.spec.release_plan;
    let hash = plan_hash(&plan.batches);
    let is_same = status.observed_release_plan_hash == hash && status.observed_rollout_id == plan.rollout_id;
    if !matches!(status.phase, Phase::Preparing | Phase::Progressing) {
        // A state that is not known begins anew.
        status.phase = Phase::Preparing;
        status.canary_status = None;
    } else if status.phase == Phase::Progressing && !is_same {
        // Pods of another release get its labels from the first batch on.
        let is_same_release = status.observed_rollout_id == plan.rollout_id;
        let last = i32::try_from(plan.batches.len()).unwrap_or(i32::MAX) - 1;
        let allowed = plan.batch_partition.filter(|_| is_same_release);
        go_to(status, allowed.unwrap_or(0).min(last).max(0));
    }
    status.observed_release_plan_hash = hash;
    status.observed_rollout_id.clone_from(&plan.rollout_id);
    let index = status.canary_status.as_ref().map_or(0, |present| present.current_batch);
    if usize::try_from(index).is_ok_and(|index| index >= plan.batches.len()) || index < 0 {
        status.phase = Phase::Preparing;
        status.canary_status = None;
    }
    status.canary_status.get_or_insert_default();
}

/// Looks whether the workload is as it was. Returns whether it is to be closed where it is open too far, since it has been
/// scaled or the release goes back; or why the release has to wait.
pub(super) fn look_at(
    release: &BatchRelease,
    workload: &Workload,
    status: &mut Status,
) -> Result<bool, String> {
    let name = format!("{} `{}`", workload.name.kind, workload.name.name);
    if !workload.is_observed() {
        return Err(format!("waits for the controller of {name} to see its present spec"));
    }
    if status.phase != Phase::Progressing {
        return Ok(false);
    }
    let present = status.canary_status.get_or_insert_default();
    if is_rollback_in_batches(release) && present.no_need_update_replicas.is_none() {
        status.phase = Phase::Preparing;
        go_to(status, 0);
        return Ok(false);
    }
    if !workload.is_release_of(&status.update_revision) {
        return Err(format!("the template of {name} has changed again: waits for the Rollout"));
    }
    status.update_revision.clone_from(&workload.update_revision);
    let is_scaled = status.observed_workload_replicas.is_some_and(|replicas| replicas != workload.replicas);
    status.observed_workload_replicas = Some(workload.replicas);
    let present = status.canary_status.get_or_insert_default().current_batch;
    let back = release.spec.release_plan.batch_partition.filter(|allowed| (0..present).contains(allowed));
    if let Some(batch) = back {
        go_to(status, batch);
    }
    Ok(is_scaled || back.is_some())
}

/// Goes on with a batch as if it had not begun.
fn go_to(status: &mut Status, batch: i32) {
    let present = status.canary_status.take().unwrap_or_default();
    status.canary_status = Some(BatchStatus {
        current_batch: batch,
        batch_state: BatchState::Upgrading,
        batch_ready_time: None,
        ..present
    });
}
