//! ImagePullJobs that pull images ahead of an update (spec 30 §16). Failures are logged and told.

use api::kinds::ObjectMeta;
use api::kinds::cloneset::CloneSet;
use cluster::Retry;
use cluster::list::List;
use cluster::resource::Path;
use cluster::write::{self, deletion};
use planner::kinds::cloneset::PreDownload;
use planner::workload::event::Event;
use serde::Deserialize;
use tracing::warn;

use super::revisions::Revisions;
use super::{Controller, PULL_JOBS, Work};
use crate::ReconcileError;

#[derive(Deserialize)]
struct Job {
    metadata: ObjectMeta,
}

impl Controller {
    /// Does what the plan says about ImagePullJobs.
    pub(super) async fn pre_download(&self, work: &Work<'_>, plan: PreDownload) {
        let done = match plan {
            PreDownload::Nothing => Ok(()),
            PreDownload::Clear => self.clear_jobs(work.set).await,
            PreDownload::Record { jobs, revision, patch } => {
                for job in jobs {
                    let event = match write::create(&self.client, &collection(work.set), job.json).await {
                        Ok(_) => Event {
                            warning: false,
                            reason: "CreatedImagePullJob",
                            message: format!("created ImagePullJob {} for image: {}", job.name, job.image),
                        },
                        Err(error) if error.is_conflict() || error.retry() == Retry::Never => continue,
                        // Normal, as clients of OpenKruise know it (spec 31, sharp edge 16).
                        Err(error) => Event {
                            warning: false,
                            reason: "FailedCreateImagePullJob",
                            message: format!("failed to create ImagePullJob {}: {error}", job.name),
                        },
                    };
                    self.tell(work.set, event);
                }
                self.revisions(work.set).patch(&revision.name, patch).await
            }
        };
        if let Err(error) = done {
            warn!(namespace = work.set.metadata.namespace, name = work.set.metadata.name, %error, "image pre-download");
        }
    }

    async fn clear_jobs(&self, set: &CloneSet) -> Result<(), ReconcileError> {
        // Asked once for each revision that everything has come to: nobody else makes jobs of ours.
        let name = &set.status.update_revision;
        if self.memory_of(set, |memory| memory.cleared == *name) {
            return Ok(());
        }
        let Some(text) = write::get(&self.client, &collection(set)).await? else { return Ok(()) };
        let jobs: List<Job> =
            serde_json::from_str(&text).map_err(ReconcileError::of_object("list of ImagePullJobs"))?;
        for Job { metadata } in jobs.items {
            if metadata.controller().is_some_and(|owner| owner.uid == set.metadata.uid) {
                let path = collection(set).name(&metadata.name);
                match write::delete(&self.client, &path, deletion(&metadata.uid, None)).await {
                    Err(error) if error.retry() != Retry::Now => return Err(error.into()),
                    _ => {}
                }
            }
        }
        self.memory_of(set, |memory| memory.cleared.clone_from(name));
        Ok(())
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

fn collection(set: &CloneSet) -> Path {
    PULL_JOBS.namespaced(&set.metadata.namespace)
}
