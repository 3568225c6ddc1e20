//! Controller `advancedcronjob-controller`: starts a Job, a BroadcastJob or an ImageListPullJob at the ticks of a schedule
//! (docs/behaviour/advancedcronjob.md#the-controller). What to do is decided by `kinds::advancedcronjob`.
//!
//! ```text
//!   AdvancedCronJobs ------------------------------------.
//!   Jobs, BroadcastJobs, ImageListPullJobs (children) ---+--(old, new)--> triggers --keys--> queue <-- the next tick
//!   reconcile: plan --> status --> replaced children --> new child --> status again --> history
//! ```
//!
//! The status is written before finished children are deleted, for they show too which run was the last. A run starts
//! before that: deletions may take long.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::kinds::advancedcronjob::{API_VERSION, AdvancedCronJob, KIND, PLURAL};
use cluster::event_sender::EventSender;
use cluster::resource::Resource;
use cluster::watched::Key;
use cluster::write::{self, PatchKind, background_deletion, unless_outdated};
use cluster::{ErrorReason, Retry};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::advancedcronjob::children::ChildKind;
use kinds::advancedcronjob::plan::{Plan, Run, plan_after};
use kinds::advancedcronjob::trigger;
use kinds::workload::object_version::ObjectVersion;
use kube::Client;
use tracing::warn;
use values::event::{Event, normal, warning};

use crate::metrics::objects;
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler, touched};
use crate::workload::owned;
use crate::workload::store::follow::Whole;
use crate::workload::store::{Change, Kept, Store};
use crate::{Context, ReconcileError, now};

mod children;

use children::Children;

const NAME: &str = "advancedcronjob-controller";
const CRON_JOBS: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);

impl Whole for AdvancedCronJob {}

struct Controller {
    context: Context,
    cron_jobs: Store<AdvancedCronJob>,
    children: [Children; 3],
    /// The ticks that were run last, with the UIDs of their AdvancedCronJobs: statuses may not report them yet.
    started: Mutex<HashMap<Key, (String, Timestamp)>>,
    event_sender: EventSender,
}

/// Reconciles AdvancedCronJobs. Never returns.
pub(crate) async fn run(context: Context) {
    let settings = QueueSettings { name: NAME, workers: context.settings.advancedcronjob_workers };
    Builder::new(&context, settings, "Reconcile", |event_sender| Controller {
        context: context.clone(),
        cron_jobs: Store::default(),
        children: ChildKind::ALL.map(Children::new),
        started: Mutex::default(),
        event_sender,
    })
    .watches(
        (CRON_JOBS, NAME),
        |all| &all.cron_jobs,
        |all, change| {
            let news = trigger::of_cron_job(change.old.as_deref(), change.new.as_deref());
            touched(all, change).filter(|_| news)
        },
    )
    .shows(&objects::advancedcronjob::TABLE, |all| all.cron_jobs.all(), |job| job)
    .counts(("advancedcronjob-children", "Job"), |all| all.children_of(ChildKind::Job).stored.len())
    .beside(|all, keys| async move {
        let of_child = |change: &Change<_>| {
            let keys = trigger::of_child(change.old.as_deref(), change.new.as_deref());
            keys.into_iter().map(|key| (key, Duration::ZERO))
        };
        owned::follow(&all.context.client, &all.children, &keys, of_child).await;
    })
    .after(|all| async move { owned::listed(&all.children).await })
    .run()
    .await;
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let Some(cron_job) = self.cron_jobs.get(key) else {
            self.started.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Next::Done);
        };
        let children = self.children_of(ChildKind::of(&cron_job.spec.template));
        if !children.stored.is_synced() {
            return Err(ReconcileError::NotListed(children.kind.kind()));
        }
        let planned = self.plan(&cron_job, children);
        let again = planned.again.map_or(Next::Done, Next::After);
        if !self.write_status(&cron_job, planned.status).await? {
            return Ok(Next::After(OUTDATED_RETRY));
        }
        let events = planned.completed.into_iter().chain(planned.notes);
        events.for_each(|event| self.record(&cron_job, event));
        let mut next = again;
        if let Some(run) = planned.run {
            let tick = run.tick;
            if let Err(error) = self.start(&cron_job, children, run).await {
                return Err(match planned.again {
                    Some(within) => ReconcileError::Due { problem: error.to_string(), within },
                    None => error,
                });
            }
            let started = (cron_job.uid().to_owned(), tick);
            self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), started);
            // At once, so that the run is remembered however soon its child is deleted.
            let Some(cron_job) = self.cron_jobs.get(key) else { return Ok(Next::Done) };
            let after = self.plan(&cron_job, children);
            next = if self.write_status(&cron_job, after.status).await? {
                after.completed.into_iter().for_each(|event| self.record(&cron_job, event));
                after.again.map_or(Next::Done, Next::After)
            } else {
                Next::After(OUTDATED_RETRY)
            };
        }
        for observed in &planned.history {
            // What is kept for too long does no harm, and is tried again with the next reconcile.
            if let Err(error) = self.delete(&cron_job, children, observed).await {
                warn!(namespace = key.0, name = observed.name, %error, "a finished child was not deleted");
            }
        }
        Ok(next)
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.cron_jobs.get(key).map(|cron_job| cron_job.reference(&CRON_JOBS))
    }
}

impl Controller {
    fn client(&self) -> &Client {
        &self.context.client
    }

    fn children_of(&self, kind: ChildKind) -> &Children {
        let [jobs, broadcast_jobs, lists] = &self.children;
        match kind {
            ChildKind::Job => jobs,
            ChildKind::BroadcastJob => broadcast_jobs,
            ChildKind::ImageListPullJob => lists,
        }
    }

    fn plan(&self, cron_job: &AdvancedCronJob, children: &Children) -> Plan {
        let owned = children.stored.group(&cron_job.uid().into());
        let owned: Vec<_> = owned.iter().map(|child| &**child).collect();
        let started =
            self.started.lock().unwrap_or_else(PoisonError::into_inner).get(&cron_job.key()).cloned();
        let started = started.filter(|(uid, _)| uid == cron_job.uid()).map(|(_, tick)| tick);
        plan_after(started, cron_job, &owned, &self.context.settings.time_zone, now().now)
    }

    /// Brings the status up to date; false if the AdvancedCronJob has changed or is gone.
    async fn write_status(
        &self,
        cron_job: &AdvancedCronJob,
        patch: Option<String>,
    ) -> Result<bool, ReconcileError> {
        let Some(patch) = patch else { return Ok(true) };
        let path = CRON_JOBS.namespaced(cron_job.namespace()).name(cron_job.name()).subresource("status");
        self.cron_jobs.take_in(KIND, write::patch(self.client(), &path, PatchKind::Merge, patch).await)
    }

    /// Starts a run: first the children go that it replaces.
    async fn start(
        &self,
        cron_job: &AdvancedCronJob,
        children: &Children,
        run: Run,
    ) -> Result<(), ReconcileError> {
        for observed in &run.replaced {
            self.delete(cron_job, children, observed).await?;
        }
        let (kind, name) = (children.kind.kind(), &run.name);
        let path = children.resource().namespaced(cron_job.namespace());
        let error = match write::create(self.client(), &path, run.json).await {
            Ok(text) => {
                children.take_in(&text)?;
                self.record(cron_job, normal("SuccessfulCreate", format!("Created job {name}")));
                return Ok(());
            }
            Err(error) => error,
        };
        if error.reason() == ErrorReason::AlreadyExists {
            let existing = write::get(self.client(), &path.name(name)).await?;
            // An earlier request was carried out whose answer did not come, or another leader was faster.
            if let Some(text) = existing
                && children.take_in(&text)?.is_some_and(|child| child.is_of(&cron_job.metadata))
            {
                return Ok(());
            }
            let message = format!("Error creating job: a {kind} {name} of somebody else exists already");
            self.record(cron_job, warning("FailedCreate", message.clone()));
            return Err(ReconcileError::Action(message));
        }
        if error.retry() != Retry::Never {
            self.record(cron_job, warning("FailedCreate", format!("Error creating job: {error}")));
        }
        Err(error.into())
    }

    /// Deletes a child, and after it what it owns.
    async fn delete(
        &self,
        cron_job: &AdvancedCronJob,
        children: &Children,
        observed: &ObjectVersion,
    ) -> Result<(), ReconcileError> {
        let path = children.resource().namespaced(cron_job.namespace()).name(&observed.name);
        let answer = write::delete(self.client(), &path, background_deletion(&observed.uid, None)).await;
        match unless_outdated(answer) {
            Ok(None) => Ok(()),
            Ok(Some(text)) => {
                children.deleted(cron_job.namespace(), observed, &text);
                self.record(cron_job, normal("SuccessfulDelete", format!("Deleted job {}", observed.name)));
                Ok(())
            }
            Err(error) => {
                if error.retry() != Retry::Never {
                    self.record(cron_job, warning("FailedDelete", format!("Deleted job: {error}")));
                }
                Err(error.into())
            }
        }
    }

    fn record(&self, cron_job: &AdvancedCronJob, event: Event) {
        self.event_sender.record(cron_job.reference(&CRON_JOBS), event);
    }
}

#[cfg(test)]
mod tests;
