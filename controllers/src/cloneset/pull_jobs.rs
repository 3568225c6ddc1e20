//! ImagePullJobs that pull images ahead of an update (spec 30 §16). Failures are logged and told.

use std::sync::Arc;

use api::kinds::ObjectMeta;
use api::kinds::cloneset::CloneSet;
use cluster::client::is_outdated;
use cluster::list::List;
use cluster::write::{self, PatchKind, deletion};
use planner::workload::action::{Action, ChildKind, IMAGE_PULL_JOB, Part};
use planner::workload::children::Child;
use planner::workload::seen::Seen;
use serde::Deserialize;
use tracing::warn;

use super::revisions::Revisions;
use super::{Controller, Work};
use crate::ReconcileError;

#[derive(Deserialize)]
struct Job {
    metadata: ObjectMeta,
}

impl Controller {
    /// Does what the plan says about ImagePullJobs.
    pub(super) async fn pre_download(&self, work: &Work<'_>, actions: &[Action]) {
        let mut all_done = true;
        for action in actions {
            if let Err(error) = self.change_child(work, action).await {
                all_done = false;
                match action.failure(Part::Itself, &error) {
                    Some(event) => self.tell(work.set, event),
                    None => {
                        let metadata = &work.set.metadata;
                        warn!(namespace = metadata.namespace, name = metadata.name, %error, "image pre-download");
                    }
                }
            }
        }
        all_done &= actions.iter().all(|action| matches!(action, Action::DeleteChild { .. }));
        if all_done && let Some(revision) = finished(work.set) {
            self.memory(work, |memory| memory.cleared = revision.to_owned());
        }
    }

    pub(super) async fn change_child(&self, work: &Work<'_>, action: &Action) -> Result<(), ReconcileError> {
        match action {
            Action::CreateChild { kind, json, .. } => {
                match write::create(&self.client, &path(work.set, kind, ""), json.clone()).await {
                    Ok(_) => action.success().into_iter().for_each(|event| self.tell(work.set, event)),
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(error) => return Err(error.into()),
                }
                Ok(())
            }
            Action::PatchChild { kind, child, patch } => {
                let path = path(work.set, kind, &child.name);
                let text = write::patch(&self.client, &path, PatchKind::Merge, patch.clone()).await?;
                self.revisions(work.set).take_in(&text)
            }
            Action::DeleteChild { kind, child } => {
                let path = path(work.set, kind, &child.name);
                match write::delete(&self.client, &path, deletion(&child.uid, None)).await {
                    Err(error) if !is_outdated(&error) => Err(error.into()),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The ImagePullJobs of a rollout that is over. They are asked for once for each revision that everything
    /// has come to: nobody else makes jobs of ours.
    pub(super) async fn pull_jobs(&self, set: &CloneSet) -> Result<Vec<Arc<Child>>, ReconcileError> {
        if !self.environment.pull_jobs {
            return Ok(Vec::new());
        }
        let Some(revision) = finished(set) else {
            self.memory_of(set, |memory| memory.cleared.clear());
            return Ok(Vec::new());
        };
        if self.memory_of(set, |memory| memory.cleared == revision) {
            return Ok(Vec::new());
        }
        let text = write::get(&self.client, &path(set, &IMAGE_PULL_JOB, "")).await?;
        let Some(text) = text else { return Ok(Vec::new()) };
        let jobs: List<Job> = serde_json::from_str(&text)?;
        let ours = |job: &Job| job.metadata.controller().is_some_and(|owner| owner.uid == set.metadata.uid);
        let child = |job: Job| Child { kind: IMAGE_PULL_JOB, seen: Seen::object(&job.metadata) };
        Ok(jobs.items.into_iter().filter(ours).map(child).map(Arc::new).collect())
    }

    /// The ControllerRevisions of the CloneSet's namespace.
    pub(super) fn revisions<'a>(&'a self, set: &'a CloneSet) -> Revisions<'a> {
        Revisions {
            client: &self.client,
            stored: &self.stores.revisions.0,
            namespace: &set.metadata.namespace,
        }
    }
}

/// The revision that every Pod has come to.
fn finished(set: &CloneSet) -> Option<&str> {
    let status = &set.status;
    (status.current_revision == status.update_revision).then_some(status.update_revision.as_str())
}

fn path(set: &CloneSet, kind: &ChildKind, name: &str) -> String {
    let ChildKind { group, version, plural, .. } = kind;
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/{group}/{version}/namespaces/{}/{plural}{slash}{name}", set.metadata.namespace)
}
