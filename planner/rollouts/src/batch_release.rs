//! Brings a new template to the Pods of a workload in batches (docs/behaviour/rollouts.md#batches).
//!
//! ```text
//!   Preparing ---> Progressing: Upgrading ---> Verifying ---> Ready ---> next batch
//!                       |            ^-------------'-----------'
//!                       '---> Finalizing ---> Completed
//! ```
//!
//! A plan goes through all states that need no waiting. It tells the workload how many Pods are to be new, and looks at it
//! again once the workload says something: no state is left by the clock.
//!
//! ```text
//!   checks    what has changed since the last plan        ready    what a batch still lacks
//!   labels    which Pods came with which batch            waiting  what a release waits for, in words
//! ```

use std::time::Duration;

use api::annotations::{RELEASED_WORKLOAD, ROLLBACK_IN_BATCH};
use api::features::Feature;
use api::finalizers::BATCH_RELEASE;
use api::kinds::batchrelease::{
    API_VERSION, BatchRelease, BatchState, BatchStatus, KIND, Phase, ReleaseBatch, Status,
};
use api::kinds::rollout::WorkloadRef;
use serde_json::json;
use values::event::warning;
use values::hash::hex_sha256;
use values::moment::Moment;

use crate::object::{Object as _, ObjectName};
use crate::plan::Plan;
use crate::settings::Settings;
use crate::view::{Unread, View};
use crate::workload::batch::Batch;
use crate::workload::task::{End, Task, refusal, refusal_of};
use crate::workload::{self, Style, Workload, actions};
use crate::write::Write;

mod checks;
mod labels;
mod ready;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use waiting::failure;
pub use waiting::waiting;

/// When to look again for Pods that the workload has counted and that have not been seen yet.
const PODS_LAG: Duration = Duration::from_secs(2);

/// The hash of batches, by which a change of them is seen.
pub fn plan_hash(batches: &[ReleaseBatch]) -> String {
    hex_sha256(&serde_json::to_string(batches).unwrap_or_default())
}

/// The release goes back to the old version batch by batch.
pub fn is_rollback_in_batches(release: &BatchRelease) -> bool {
    release.metadata.annotations.get(ROLLBACK_IN_BATCH).is_some_and(|value| value == "true")
}

/// The workload is the one with which the release began, and not another one that got its name since.
pub(crate) fn is_of(release: &BatchRelease, workload: &Workload) -> bool {
    let known = release.metadata.annotations.get(RELEASED_WORKLOAD);
    known.is_none_or(|uid| uid == workload.object.uid())
}

/// What is to be done about a BatchRelease.
///
/// # Errors
/// Something that the plan needs has not been read.
pub fn plan(
    release: &BatchRelease,
    view: &View,
    settings: &Settings,
    moment: &Moment,
) -> Result<Plan<Status>, Unread> {
    let mut plan = Plan::only(release.status.clone());
    let is_deleting = release.metadata.deletion_timestamp.is_some();
    let is_kept = release.metadata.finalizers.iter().any(|finalizer| finalizer == BATCH_RELEASE);
    if is_deleting && !is_kept {
        return Ok(plan);
    }
    if !is_kept {
        plan.writes.push(with_finalizer(release, true));
    }
    let is_over =
        release.status.phase == Phase::Completed || run(release, view, settings, moment, &mut plan)?;
    if is_deleting && is_over {
        // Nothing is left then that a status could be written to.
        plan.writes.push(with_finalizer(release, false));
        plan.status = release.status.clone();
    }
    Ok(plan)
}

/// Goes on with a release that has not been completed. Returns whether it is now.
fn run(
    release: &BatchRelease,
    view: &View,
    settings: &Settings,
    moment: &Moment,
    plan: &mut Plan<Status>,
) -> Result<bool, Unread> {
    let nothing = WorkloadRef::default();
    let reference = release.spec.workload_ref.as_ref().unwrap_or(&nothing);
    let style = Style::of_plan(&release.spec.release_plan, reference);
    plan.status.observed_generation = release.metadata.generation;
    if let Some(refusal) = refusal(reference, style) {
        refuse(plan, release, refusal);
        return Ok(true);
    }
    let is_ending =
        release.metadata.deletion_timestamp.is_some() || release.spec.release_plan.batch_partition.is_none();
    let workload = workload::read(reference, &release.metadata.namespace, style, view)?;
    match workload.filter(|workload| is_of(release, workload)) {
        Some(workload) if is_ending => {
            let way = way_to_end(release, &workload, settings);
            end(release, &workload, way, view, plan)
        }
        Some(workload) => progress(release, &workload, view, moment, plan).map(|()| false),
        None if is_ending || checks::has_begun(&plan.status) => {
            plan.writes.extend(actions::clean_up(release, reference, style, view)?);
            complete(&mut plan.status);
            Ok(true)
        }
        None => {
            plan.status.message = format!("{} `{}` is not there", reference.kind, reference.name);
            Ok(false)
        }
    }
}

/// Reports a workload that can't be released, once.
fn refuse(plan: &mut Plan<Status>, release: &BatchRelease, refusal: String) {
    let is_known = release.status.message == refusal;
    plan.events.extend((!is_known).then(|| warning("UnsupportedWorkload", refusal.clone())));
    plan.status.message = refusal;
}

/// Hands the workload back. Returns whether that is done.
fn end(
    release: &BatchRelease,
    workload: &Workload,
    way: End,
    view: &View,
    plan: &mut Plan<Status>,
) -> Result<bool, Unread> {
    let mut task = Task::of(release, workload, view);
    let waits_for = actions::end(&mut task, way)?;
    plan.writes.extend(task.into_writes());
    count(&mut plan.status, workload);
    match waits_for {
        Some(words) => {
            plan.status.phase = Phase::Finalizing;
            plan.status.message = words;
            Ok(false)
        }
        None => {
            complete(&mut plan.status);
            Ok(true)
        }
    }
}

/// A workload that says that a release is running is left to it: another one follows the one that is deleted, or the
/// template has changed since this one began to end. One that was made to hand a workload back comes before that goes. What
/// a person has made and deletes leaves the workload as it is.
fn way_to_end(release: &BatchRelease, workload: &Workload, settings: &Settings) -> End {
    let is_deleted = release.spec.release_plan.batch_partition.is_some();
    let is_kept = settings.gates.enabled(Feature::KeepWorkloadPausedOnRolloutDeletion);
    if workload.in_progressing.is_some() && (is_deleted || checks::has_begun(&release.status)) {
        End::Continue
    } else if is_deleted && (is_kept || release.metadata.controller().is_none()) {
        End::Leave
    } else {
        End::HandBack
    }
}

fn complete(status: &mut Status) {
    status.phase = Phase::Completed;
    status.message.clear();
}

/// Takes the workload over, and brings batch after batch.
fn progress(
    release: &BatchRelease,
    workload: &Workload,
    view: &View,
    moment: &Moment,
    plan: &mut Plan<Status>,
) -> Result<(), Unread> {
    plan.status.message.clear();
    checks::begin(release, &mut plan.status);
    if let Some(refusal) = refusal_of(workload) {
        refuse(plan, release, refusal);
        return Ok(());
    }
    let mut task = Task::of(release, workload, view);
    if plan.status.phase == Phase::Progressing {
        // What somebody has let go waits for nothing.
        actions::keep_held(&mut task)?;
    }
    let closes = match checks::look_at(release, workload, &mut plan.status) {
        Ok(closes) => closes,
        Err(words) => {
            plan.status.message = words;
            plan.writes.extend(task.into_writes());
            return Ok(());
        }
    };
    count(&mut plan.status, workload);
    if plan.status.phase != Phase::Progressing {
        let marks = marks(release, workload, view)?;
        if !marks.is_empty() {
            plan.writes.extend(marks);
            plan.again = Some(PODS_LAG);
            return Ok(());
        }
        prepare(release, workload, &mut plan.status);
    }
    actions::hold(&mut task)?;
    let labels = batches(&mut task, closes, moment, plan)?;
    // Noted last: the release goes on without waiting for it.
    actions::note_held(&mut task);
    labels::announce(
        &mut task,
        plan.status.canary_status.as_ref().map_or(0, |present| present.current_batch),
    );
    plan.writes.extend(task.into_writes().chain(labels));
    Ok(())
}

/// Marks the Pods that have the wanted version already, before a rollback in batches changes others.
fn marks(release: &BatchRelease, workload: &Workload, view: &View) -> Result<Vec<Write>, Unread> {
    if is_rollback_in_batches(release) {
        labels::no_need_update(release, workload, view)
    } else {
        Ok(Vec::new())
    }
}

/// Records what the release begins with.
fn prepare(release: &BatchRelease, workload: &Workload, status: &mut Status) {
    status.phase = Phase::Progressing;
    status.stable_revision.clone_from(&workload.stable_revision);
    status.update_revision.clone_from(&workload.update_revision);
    status.observed_workload_replicas = Some(workload.replicas);
    let no_need = is_rollback_in_batches(release).then_some(workload.updated_replicas);
    status.canary_status.get_or_insert_default().no_need_update_replicas = no_need;
}

/// Brings batch after batch, up to the one that may run or the first that needs waiting. Returns the labels that Pods get.
fn batches(
    task: &mut Task<'_>,
    closes: bool,
    moment: &Moment,
    plan: &mut Plan<Status>,
) -> Result<Vec<Write>, Unread> {
    let allowed = task.release.spec.release_plan.batch_partition.unwrap_or(0);
    loop {
        let present = plan.status.canary_status.get_or_insert_default();
        let Some(batch) = batch_of(task.release, task.workload, present) else {
            plan.status.message = "the release has no batches".to_owned();
            return Ok(Vec::new());
        };
        let is_empty = task.workload.replicas == 0;
        if !is_empty {
            actions::open(task, &batch, closes)?;
        }
        let labels = labels::of_batches(task.release, task.workload, present, &batch, task.view)?;
        let lack = if is_empty { None } else { ready::lack(task.release, task.workload, &batch, &labels) };
        if task.is_pending() || lack.is_some() {
            present.batch_state = BatchState::Verifying;
            present.batch_ready_time = None;
            let only_labels = !task.is_pending() && matches!(lack, Some(ready::Lack::Labels { .. }));
            plan.again = only_labels.then_some(PODS_LAG);
            return Ok(labels.writes);
        }
        if present.batch_state != BatchState::Ready {
            present.batch_state = BatchState::Ready;
            present.batch_ready_time = Some(moment.now.into());
        }
        if present.current_batch >= allowed {
            return Ok(labels.writes);
        }
        present.current_batch += 1;
        present.batch_state = BatchState::Upgrading;
        present.batch_ready_time = None;
    }
}

/// The present batch of a release; `None` where it has none of this number.
fn batch_of<'a>(release: &'a BatchRelease, workload: &Workload, present: &BatchStatus) -> Option<Batch<'a>> {
    let index = usize::try_from(present.current_batch).ok()?;
    let size = &release.spec.release_plan.batches.get(index)?.canary_replicas;
    Some(Batch::of(size, workload, present.no_need_update_replicas))
}

/// Records how many Pods are new.
fn count(status: &mut Status, workload: &Workload) {
    let present = status.canary_status.get_or_insert_default();
    present.updated_replicas = workload.updated_replicas;
    present.updated_ready_replicas = workload.updated_ready_replicas;
}

/// Adds or removes the finalizer.
fn with_finalizer(release: &BatchRelease, is_kept: bool) -> Write {
    let metadata = &release.metadata;
    let others =
        metadata.finalizers.iter().map(String::as_str).filter(|finalizer| *finalizer != BATCH_RELEASE);
    let finalizers: Vec<&str> = others.chain(is_kept.then_some(BATCH_RELEASE)).collect();
    let patch = json!({"metadata": {
        "uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers,
    }});
    let name = ObjectName::new(API_VERSION, KIND, &metadata.namespace, &metadata.name);
    Write::Patch { name, subresource: "", patch }
}
