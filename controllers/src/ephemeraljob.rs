//! Controller `ephemeraljob-controller`: adds the containers of EphemeralJobs to Pods and counts what becomes of them
//! (docs/behaviour/restarts.md#the-controller-of-ephemeraljobs). What to do is decided by
//! `kinds::ephemeraljob`.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::ephemeraljob::{API_VERSION, EphemeralJob, KIND, PLURAL};
use cluster::ErrorReason;
use cluster::resource::{PODS, Resource};
use cluster::watched::Key;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::ephemeraljob::step::{Injection, Step, Work, is_over, not_removed, refused, step};
use kinds::ephemeraljob::trigger;
use kube::Client;
use pod::observed::ObservedPod;

use crate::workload::batches::growing;
use crate::workload::builder::{Builder, Next, QUICK_RETRY, QueueSettings, Reconciler, touched};
use crate::workload::pods::Pods;
use crate::workload::store::follow::Whole;
use crate::workload::store::{Change, Kept, Store};
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;

const SETTINGS: QueueSettings = QueueSettings { name: "ephemeraljob-controller", workers: 10 };
const JOBS: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
/// Steps in one reconcile. No job needs more at a time.
const STEPS: usize = 4;
/// The most Pods that are written to at a time. It begins with one, so that what is refused everywhere costs little.
const WIDEST_BATCH: usize = 16;

impl Whole for EphemeralJob {}

struct Controller {
    client: Client,
    jobs: Store<EphemeralJob>,
    pods: Arc<Pods>,
    event_sender: EventSender,
}

/// Reconciles jobs. Never returns.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let (client, of_pods) = (context.client.clone(), pods.subscribe());
    Builder::new(&context, SETTINGS, "Inject", |event_sender| Controller {
        client,
        jobs: Store::default(),
        pods,
        event_sender,
    })
    .watches(
        (JOBS, "ephemeraljobs"),
        |all| &all.jobs,
        |all, change| {
            let concerned = trigger::of_job(change.old.as_deref(), change.new.as_deref());
            touched(all, change).filter(|_| concerned)
        },
    )
    .woken_by(of_pods, Controller::of_pod)
    .run()
    .await;
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        for _ in 0..STEPS {
            let Some(job) = self.jobs.get(key) else {
                self.pods.leave(KIND, key);
                return Ok(Next::Done);
            };
            let pods = if is_over(&job) {
                self.pods.leave(KIND, key);
                Vec::new()
            } else {
                self.pods.want(KIND, key);
                self.pods.complete(&self.client, &key.0).await?;
                self.pods.of_namespace(&key.0)
            };
            if let Some(next) = self.take(&job, &pods).await? {
                return Ok(next);
            }
        }
        Ok(Next::After(QUICK_RETRY))
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.jobs.get(key).map(|job| job.reference(&JOBS))
    }
}

impl Controller {
    /// The unfinished jobs that a Pod concerns.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
        let states: Vec<&ObservedPod> = change.states().map(|pod| &**pod).collect();
        let Some(pod) = states.first() else { return Vec::new() };
        let jobs = self.jobs.group(&pod.namespace().into());
        if jobs.is_empty() {
            return Vec::new();
        }
        let due = trigger::of_pod(change.old.as_deref(), change.new.as_deref());
        let Some(due) = due else { return Vec::new() };
        trigger::jobs_of(&states, &jobs).into_iter().map(|job| (job.key(), due)).collect()
    }

    /// Takes the next step; `None` where another one follows at once.
    async fn take(
        &self,
        job: &EphemeralJob,
        pods: &[Arc<ObservedPod>],
    ) -> Result<Option<Next>, ReconcileError> {
        match step(job, pods, now().now) {
            Step::Wait(rest) => Ok(Some(rest.map_or(Next::Done, Next::After))),
            Step::Job(patch) => {
                let written = self.write(job, "", patch).await;
                if let Err(error) = &written
                    && job.metadata.deletion_timestamp.is_some()
                {
                    self.event_sender.record(job.reference(&JOBS), not_removed(&error.message()));
                }
                written
            }
            Step::Delete => {
                let path = JOBS.namespaced(job.namespace()).name(job.name());
                unless_outdated(write::delete(&self.client, &path, deletion(job.uid(), None)).await)?;
                Ok(Some(Next::Done))
            }
            Step::Work(Work { status, injections, next }) => {
                if let Some(patch) = status
                    && let Some(next) = self.write(job, "status", patch).await?
                {
                    return Ok(Some(next));
                }
                let all_written = self.inject(job, &injections).await?;
                Ok(Some(if all_written {
                    next.map_or(Next::Done, Next::After)
                } else {
                    Next::After(QUICK_RETRY)
                }))
            }
        }
    }

    /// Patches the job; gives what is next where it was in another state, or is gone.
    async fn write(
        &self,
        job: &EphemeralJob,
        part: &str,
        patch: String,
    ) -> Result<Option<Next>, ReconcileError> {
        let path = JOBS.namespaced(job.namespace()).name(job.name()).subresource(part);
        let answer = write::patch(&self.client, &path, PatchKind::Merge, patch).await;
        let is_written = self.jobs.take_in(KIND, answer)?;
        Ok((!is_written).then_some(Next::After(QUICK_RETRY)))
    }

    /// Adds containers to Pods, in batches that grow; what is refused ends it. False where a Pod was in another state.
    /// A Pod that has gone stops no other: it is an error in the end, since only the watch can show more.
    async fn inject(&self, job: &EphemeralJob, injections: &[Injection]) -> Result<bool, ReconcileError> {
        let (mut all_written, mut gone) = (true, None);
        for batch in growing(injections, WIDEST_BATCH) {
            for done in join_all(batch.iter().map(|injection| self.inject_one(injection))).await {
                match done {
                    Ok(written) => all_written &= written,
                    Err(ReconcileError::Api(error)) if error.reason() == ErrorReason::NotFound => {
                        gone = Some(error);
                    }
                    Err(error) => {
                        self.event_sender.record(job.reference(&JOBS), refused(&error.message()));
                        return Err(error);
                    }
                }
            }
        }
        gone.map_or(Ok(all_written), |error| Err(error.into()))
    }

    async fn inject_one(&self, injection: &Injection) -> Result<bool, ReconcileError> {
        let Injection { pod, patch } = injection;
        let path = PODS.namespaced(pod.namespace()).name(pod.name()).subresource("ephemeralcontainers");
        match write::patch(&self.client, &path, PatchKind::StrategicMerge, patch.clone()).await {
            Ok(text) => {
                self.pods.written(&text)?;
                Ok(true)
            }
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
