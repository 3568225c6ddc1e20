//! Controller `imagelistpulljob-controller`: an ImagePullJob for each image of an ImageListPullJob
//! (docs/behaviour/images.md#the-controller-of-imagelistpulljobs). What to do is decided by
//! `kinds::imagelistpulljob`.

use std::sync::Arc;
use std::time::Duration;

use api::annotations::PULL_WHEN;
use api::kinds::imagelistpulljob::{API_VERSION, ImageListPullJob, KIND, PLURAL};
use cluster::resource::{Path, Resource};
use cluster::watched::Key;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use cluster::{ApiError, Retry};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::imagelistpulljob::plan::{Plan, plan};
use kinds::imagepulljob::Job;
use kinds::workload::object_version::ObjectVersion;
use kube::Client;
use values::event::Event;

use crate::images::{Images, JobGroup, PULL_JOBS};
use crate::workload::batches::growing;
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use crate::workload::limiter::Limiter;
use crate::workload::store::follow::Whole;
use crate::workload::store::{Change, Kept, Store};
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;

const NAME: &str = "imagelistpulljob-controller";
const LISTS: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);

impl Whole for ImageListPullJob {}

struct Controller {
    client: Client,
    lists: Store<ImageListPullJob>,
    images: Arc<Images>,
    limiter: Limiter<Key>,
    event_sender: EventSender,
}

/// Reconciles ImageListPullJobs. Never returns.
pub(crate) async fn run(context: Context, images: Arc<Images>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.imagepulljob_workers };
    let (client, of_jobs) = (context.client.clone(), images.jobs.subscribe());
    let controller = |event_sender| Controller {
        client,
        lists: Store::default(),
        images,
        limiter: Limiter::default(),
        event_sender,
    };
    Builder::new(&context, settings, "Reconcile", controller)
        .watches((LISTS, NAME), |all| &all.lists, |_, change| of_list(change))
        .woken_by(of_jobs, |_, change| of_job(change))
        .after(|controller| async move { controller.images.jobs.synced().await })
        .run()
        .await;
}

/// A list that is new, is gone, or says something else.
fn of_list(change: &Change<ImageListPullJob>) -> Option<(Key, Duration)> {
    let said = |list: &Arc<ImageListPullJob>| {
        let metadata = &list.metadata;
        (
            metadata.uid.clone(),
            metadata.generation,
            metadata.annotations.get(PULL_WHEN).cloned(),
            metadata.deletion_timestamp.clone(),
            list.status.completion_time.clone(),
        )
    };
    let news = change.old.as_ref().map(said) != change.new.as_ref().map(said);
    news.then(|| change.states().next().map(|list| (list.key(), Duration::ZERO))).flatten()
}

/// The list whose job changed.
fn of_job(change: &Change<Job>) -> Option<(Key, Duration)> {
    let job = change.states().next()?;
    let metadata = &job.object.metadata;
    let owner =
        metadata.controller().filter(|owner| owner.kind == KIND && owner.group() == api::APPS_GROUP)?;
    Some(((metadata.namespace.clone(), owner.name.clone()), Duration::ZERO))
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let Some(list) = self.lists.get(key) else {
            self.limiter.forget(key);
            return Ok(Next::Done);
        };
        let plan = self.plan(&list);
        let path = LISTS.namespaced(&key.0).name(&key.1);
        if plan.expired {
            unless_outdated(write::delete(&self.client, &path, deletion(list.uid(), None)).await)?;
            return Ok(Next::Done);
        }
        if let Some(label) = plan.label {
            let done = self.write(&path, label).await?;
            // The new version of the list is what the rest has to be planned on.
            return Ok(Next::After(if done { Duration::ZERO } else { OUTDATED_RETRY }));
        }
        self.create(&list, plan.create).await?;
        self.delete(&list, plan.delete).await?;
        for (name, patch) in plan.correct {
            let path = PULL_JOBS.namespaced(&key.0).name(&name);
            let answer = write::patch(&self.client, &path, PatchKind::Merge, patch).await;
            if let Some(text) = unless_outdated(answer)? {
                self.take_in(&text)?;
            }
        }
        let Some(status) = plan.status else { return Ok(plan.again.map_or(Next::Done, Next::After)) };
        let is_urgent = status.contains("completionTime");
        if let Some(wait) = self.limiter.pace(key, is_urgent) {
            return Ok(Next::After(wait));
        }
        let done = self.write(&path.subresource("status"), status).await?;
        Ok(if done { plan.again.map_or(Next::Done, Next::After) } else { Next::After(OUTDATED_RETRY) })
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.lists.get(key).map(|list| list.reference(&LISTS))
    }
}

impl Controller {
    fn plan(&self, list: &ImageListPullJob) -> Plan {
        let owned = self.images.jobs.group(&JobGroup::Owner(list.uid().into()));
        let owned: Vec<_> = owned.iter().map(|job| &job.object).collect();
        plan(list, &owned, now().now)
    }

    /// Patches the list; false where it was in another state.
    async fn write(&self, path: &Path, patch: String) -> Result<bool, ReconcileError> {
        self.lists.take_in(KIND, write::patch(&self.client, path, PatchKind::Merge, patch).await)
    }

    fn take_in(&self, text: &str) -> Result<(), ReconcileError> {
        self.images.jobs.written(Job::read(text).map_err(ReconcileError::of_object(PULL_JOBS.kind))?);
        Ok(())
    }

    /// Creates jobs in batches that grow, so that what is refused costs few requests; the first error ends it.
    async fn create(&self, list: &ImageListPullJob, jobs: Vec<String>) -> Result<(), ReconcileError> {
        let (count, path) = (jobs.len(), PULL_JOBS.namespaced(list.namespace()));
        for batch in growing(&jobs, usize::MAX) {
            let created =
                join_all(batch.iter().map(|job| write::create(&self.client, &path, job.clone()))).await;
            let mut failed: Option<ApiError> = None;
            for created in created {
                match created {
                    Ok(text) => self.take_in(&text)?,
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                if error.retry() != Retry::Never {
                    let message = format!("Failed to create ImagePullJob: {error}");
                    self.record(list, Event { warning: true, reason: "FailedCreate", message });
                }
                return Err(error.into());
            }
        }
        self.record_count(list, "Successful create ImagePullJob", "Create", count);
        Ok(())
    }

    async fn delete(&self, list: &ImageListPullJob, jobs: Vec<ObjectVersion>) -> Result<(), ReconcileError> {
        let count = jobs.len();
        for observed in jobs {
            let path = PULL_JOBS.namespaced(list.namespace()).name(&observed.name);
            let answer = write::delete(&self.client, &path, deletion(&observed.uid, None)).await;
            if let Some(text) = unless_outdated(answer)? {
                let ends = |job: &Job| job.object.metadata.deletion_timestamp.is_some();
                self.images.jobs.ended(list.namespace(), &observed, Job::read(&text).ok().filter(ends));
            }
        }
        self.record_count(list, "Successful delete ImagePullJob", "Delete", count);
        Ok(())
    }

    /// Says that a whole batch succeeded.
    fn record_count(&self, list: &ImageListPullJob, reason: &'static str, verb: &str, count: usize) {
        if count > 0 {
            self.record(
                list,
                Event { warning: false, reason, message: format!("{verb} {count} ImagePullJob") },
            );
        }
    }

    fn record(&self, list: &ImageListPullJob, event: Event) {
        self.event_sender.record(list.reference(&LISTS), event);
    }
}
