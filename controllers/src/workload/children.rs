//! Objects that a workload owns beside Pods, claims and revisions, such as the ImagePullJobs that pull images
//! ahead of an update.

use std::sync::Arc;

use api::kinds::ObjectMeta;
use cluster::Retry;
use cluster::list::List;
use cluster::resource::{Path, Resource};
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use kinds::workload::action::{Action, CONTROLLER_REVISION, ChildKind, IMAGE_PULL_JOB, Part};
use kinds::workload::children::Child;
use kinds::workload::kind::{Workload, WorkloadStatus};
use kinds::workload::object_version::ObjectVersion;
use serde::Deserialize;
use tracing::warn;

use super::controller::{Controller, Work};
use crate::ReconcileError;

#[derive(Deserialize)]
struct Job {
    metadata: ObjectMeta,
}

impl<W: Workload> Controller<W> {
    /// Does what the plan says about ImagePullJobs. Failures are logged or recorded as Events, and stop nothing.
    pub(super) async fn pre_download(&self, work: &Work<'_, W>, actions: &[Action]) {
        let mut all_done = true;
        for action in actions {
            let Err(error) = self.change_child(work, action).await else { continue };
            all_done = false;
            if error.retry() == Retry::Never {
                continue;
            }
            match work.workload.failure(action, Part::Itself, &error.message()) {
                Some(event) => self.record(work.workload, event),
                None => {
                    let metadata = work.workload.metadata();
                    warn!(namespace = metadata.namespace, name = metadata.name, %error, "image pre-download");
                }
            }
        }
        all_done &= actions.iter().all(|action| matches!(action, Action::DeleteChild { .. }));
        if all_done && let Some(revision) = finished(work.workload) {
            self.memory(work.workload, |memory| memory.cleared = revision.to_owned());
        }
    }

    /// Creates, patches or deletes a child object.
    pub(super) async fn change_child(
        &self,
        work: &Work<'_, W>,
        action: &Action,
    ) -> Result<(), ReconcileError> {
        let collection = |kind| collection(work.workload, kind);
        match action {
            Action::CreateChild { kind, json, .. } => {
                match write::create(&self.client, &collection(kind), json.clone()).await {
                    Ok(_) => work
                        .workload
                        .success(action, Part::Itself)
                        .into_iter()
                        .for_each(|event| self.record(work.workload, event)),
                    Err(error) if error.is_conflict() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Action::PatchChild { kind, child, patch } | Action::AdoptChild { kind, child, patch } => {
                let adopts = matches!(action, Action::AdoptChild { .. });
                if adopts && !self.still_exists(work.workload).await? {
                    return Ok(());
                }
                let path = collection(kind).name(&child.name);
                let text = write::patch(&self.client, &path, PatchKind::Merge, patch.clone()).await?;
                if *kind == CONTROLLER_REVISION {
                    self.revisions(work.workload).take_in(&text)?;
                }
            }
            Action::DeleteChild { kind, child } => {
                let path = collection(kind).name(&child.name);
                unless_outdated(write::delete(&self.client, &path, deletion(&child.uid, None)).await)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The ImagePullJobs of a rollout that is over. They are asked for once for each revision that everything
    /// has come to: nobody else makes jobs of ours.
    pub(super) async fn children(&self, workload: &W) -> Result<Vec<Arc<Child>>, ReconcileError> {
        if !self.environment.pull_jobs {
            return Ok(Vec::new());
        }
        let Some(revision) = finished(workload) else {
            self.memory(workload, |memory| memory.cleared.clear());
            return Ok(Vec::new());
        };
        if self.memory(workload, |memory| memory.cleared == revision) {
            return Ok(Vec::new());
        }
        let text = write::get(&self.client, &collection(workload, &IMAGE_PULL_JOB)).await?;
        let Some(text) = text else { return Ok(Vec::new()) };
        let jobs: List<Job> =
            serde_json::from_str(&text).map_err(ReconcileError::of_object("list of ImagePullJobs"))?;
        let uid = &workload.metadata().uid;
        let ours = |job: &Job| job.metadata.controller().is_some_and(|owner| owner.uid == *uid);
        let child = |job: Job| Child { kind: IMAGE_PULL_JOB, observed: ObjectVersion::object(&job.metadata) };
        Ok(jobs.items.into_iter().filter(ours).map(child).map(Arc::new).collect())
    }
}

/// The revision that every Pod has come to.
fn finished(workload: &impl Workload) -> Option<&str> {
    let status = workload.status();
    (status.current_revision() == status.update_revision()).then_some(status.update_revision())
}

fn collection(workload: &impl Workload, kind: &ChildKind) -> Path {
    let version = if kind.group.is_empty() {
        kind.version.to_owned()
    } else {
        format!("{}/{}", kind.group, kind.version)
    };
    Resource::new(&version, kind.plural, kind.kind).namespaced(&workload.metadata().namespace)
}
