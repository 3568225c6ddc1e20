//! Controller `imagepulljob-controller`: hands the tasks of ImagePullJobs to the NodeImages of their nodes, and counts
//! what becomes of them (docs/behaviour/images.md#the-controller-of-imagepulljobs). It runs with feature gate
//! `ImagePullJobGate`. What to do is decided by `kinds::imagepulljob`.
//!
//! ```text
//!   ImagePullJobs -------.
//!   NodeImages, Nodes ----+--(old, new)--> triggers --keys--> queue
//!   Pods, Secrets -------'
//!   reconcile: copies of Secrets --> check the nodes --> tasks, many at a time --> status, seldom
//! ```
//!
//! Checking the nodes of a job takes time for each of them. After that a job rests for a multiple of the time, so that
//! many NodeImages that change cost a small, constant share of the time and not their square.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::kinds::cloneset;
use api::kinds::imagepulljob::KIND;
use api::kinds::nodeimage::{NodeImage, PullSecret};
use api::kinds::shared;
use cluster::Retry;
use cluster::resource::{NODE_IMAGES, Path, Resource, SECRETS};
use cluster::watched::Key;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::imagepulljob::progress::{
    Due, Look, Stage, due, is_overdue, next_reconcile, patch, stage, status_of,
};
use kinds::imagepulljob::task::hand_out;
use kinds::imagepulljob::{Job, Nodes, order_of_updates, trigger};
use kinds::workload::update_order::UpdateOrder;
use kube::Client;
use pod::node_fit::is_virtual;
use pod::observed::ObservedPod;
use values::event::Event;

use crate::images::{Images, JobGroup, NodeGroup, PULL_JOBS};
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use crate::workload::limiter::{CpuTime, Limiter};
use crate::workload::nodes::NodeChange;
use crate::workload::store::follow::follow_all;
use crate::workload::store::{Change, Kept, key};
use crate::workload::stores::Stores;
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;
use secrets::Found;

mod secrets;
#[cfg(test)]
mod tests;

const NAME: &str = "imagepulljob-controller";
/// NodeImages that are written to at a time.
const AT_ONCE: usize = 16;
/// How often a NodeImage is read that changes while it is written to.
const ATTEMPTS: usize = 3;
/// Pause before nodes with too many images are checked again.
const FULL: Duration = Duration::from_secs(60);

struct Controller {
    client: Client,
    images: Arc<Images>,
    stores: Arc<Stores>,
    context: Context,
    limiter: Limiter<Key>,
    memories: Mutex<HashMap<Key, Memory>>,
    /// Secrets are copied for one job at a time, so that others share the copies.
    copying: tokio::sync::Mutex<()>,
    event_sender: EventSender,
}

/// What is remembered of a job. Losing it costs some requests.
#[derive(Default)]
struct Memory {
    /// Its Secrets, once they are copied.
    secrets: Option<Found>,
    /// How often one of its Secrets has changed.
    round: u64,
    /// In which order its workload updates Pods.
    order: Option<UpdateOrder>,
}

/// Reconciles ImagePullJobs. Never returns.
pub(crate) async fn run(context: Context, images: Arc<Images>, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.imagepulljob_workers };
    let light = cluster::client::metadata_only(context.client.clone());
    Builder::new(&context, settings, "PullImage", |event_sender| {
        Controller::new(context.clone(), images.clone(), stores.clone(), event_sender)
    })
    .woken_by(images.jobs.subscribe(), Controller::of_job)
    .woken_by(images.nodes.subscribe(), Controller::of_node_image)
    .woken_by(stores.nodes.subscribe(), Controller::of_node)
    .woken_by(images.copies.subscribe(), Controller::of_copy)
    .woken_by(stores.pods.subscribe(), Controller::of_pod)
    .beside(|controller, keys| async move {
        follow_all(&light, SECRETS, &secrets::Changes { controller, keys }).await;
    })
    .after(|_| async move {
        tokio::join!(images.nodes.synced(), images.jobs.synced(), images.copies.synced());
        // Until Nodes are listed, none of them would be waited for.
        while stores.nodes.facts().await.is_err() {}
    })
    .run()
    .await;
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let Some(job) = self.images.jobs.get(key) else {
            self.forget(key);
            return Ok(Next::Done);
        };
        if let Some(rest) = self.limiter.rest(key) {
            return Ok(Next::After(rest));
        }
        let next = match stage(&job, now().now) {
            Stage::Running => self.advance(key, &job).await,
            Stage::Unusable => Ok(Next::Done),
            Stage::Ending => self
                .finish(key, &job)
                .await
                .map(|done| if done { Next::Done } else { Next::After(OUTDATED_RETRY) }),
            Stage::Completed(left) => match self.finish(key, &job).await {
                Ok(true) => self.expire(&job, left).await,
                Ok(false) => Ok(Next::After(OUTDATED_RETRY)),
                Err(error) => Err(error),
            },
        };
        self.limiter.ended(key, next.is_ok());
        next
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.images.jobs.get(key).map(|job| job.reference(&PULL_JOBS))
    }

    fn panicked(&self, key: &Key) {
        self.limiter.ended(key, false);
    }
}

impl Controller {
    fn new(context: Context, images: Arc<Images>, stores: Arc<Stores>, event_sender: EventSender) -> Self {
        Self {
            client: context.client.clone(),
            images,
            stores,
            context,
            limiter: Limiter::default(),
            memories: Mutex::default(),
            copying: tokio::sync::Mutex::default(),
            event_sender,
        }
    }

    /// A job that is new, is gone, or says something else.
    fn of_job(&self, change: &Change<Job>) -> Option<(Key, Duration)> {
        let said = |job: &Arc<Job>| {
            (job.uid().to_owned(), job.object.metadata.generation, job.when.clone(), job.is_active())
        };
        let job = change.states().last()?;
        if change.old.as_ref().map(said) == change.new.as_ref().map(said) {
            return None;
        }
        self.limiter.wake(&job.key());
        Some((job.key(), Duration::ZERO))
    }

    /// The jobs to which the change of a NodeImage matters.
    fn of_node_image(&self, change: &Change<NodeImage>) -> Vec<(Key, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let mut keys = BTreeSet::new();
        if trigger::changes_sets(old, new) {
            let active = self.images.jobs.group(&JobGroup::Active);
            keys.extend(active.iter().filter(|job| trigger::concerns(job, old, new)).map(|job| job.key()));
        }
        if let (Some(old), Some(new)) = (old, new) {
            for image in trigger::changed_images(old, new) {
                let jobs = self.images.jobs.group(&JobGroup::Image(image.into()));
                keys.extend(jobs.iter().filter(|job| trigger::is_about(job, old, new)).map(|job| job.key()));
            }
        }
        keys.into_iter().map(|key| (key, Duration::ZERO)).collect()
    }

    /// The jobs that wait for what a Node shows now, or does not show any more.
    fn of_node(&self, NodeChange { name, old, new, .. }: &NodeChange) -> Vec<(Key, Duration)> {
        let Some(node) = self.images.nodes.get(&key(name)) else { return Vec::new() };
        let mut jobs = self.images.jobs.group(&JobGroup::Conditional);
        jobs.retain(|job| trigger::concerns_by_facts(job, &node, old.as_deref(), new.as_deref()));
        jobs.iter().map(|job| (job.key(), Duration::ZERO)).collect()
    }

    /// The jobs to whose nodes a Pod leads, or led.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
        let Some(pod) = change.states().next() else { return Vec::new() };
        let mut jobs = self.images.jobs.group(&JobGroup::Pods((*pod.metadata.namespace).into()));
        jobs.retain(|job| trigger::concerns_by_pod(job, change.old.as_deref(), change.new.as_deref()));
        jobs.iter().map(|job| (job.key(), Duration::ZERO)).collect()
    }

    /// Does something with what is remembered of a job.
    fn memory<T>(&self, key: &Key, work: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        work(memories.entry(key.clone()).or_default())
    }

    fn forget(&self, key: &Key) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.limiter.forget(key);
        self.stores.pods.leave(KIND, key);
    }

    /// Releases what a job that is over holds; false where it was in another state.
    async fn finish(&self, key: &Key, job: &Job) -> Result<bool, ReconcileError> {
        self.forget(key);
        let Some(patch) = job.with_finalizer(false) else { return Ok(true) };
        self.release_secrets(job).await?;
        self.write(&path_of(job), patch).await
    }

    async fn expire(&self, job: &Job, left: Option<Duration>) -> Result<Next, ReconcileError> {
        match left {
            None => Ok(Next::Done),
            Some(left) if !left.is_zero() => Ok(Next::After(left)),
            Some(_) => {
                let deleted = write::delete(&self.client, &path_of(job), deletion(job.uid(), None)).await;
                unless_outdated(deleted)?;
                Ok(Next::Done)
            }
        }
    }

    /// Brings a running job on.
    async fn advance(&self, key: &Key, job: &Job) -> Result<Next, ReconcileError> {
        if let Some(patch) = job.with_finalizer(true)
            && !self.write(&path_of(job), patch).await?
        {
            return Ok(Next::After(OUTDATED_RETRY));
        }
        self.find_pods(key, job).await?;
        let secrets = self.secrets(key, job).await?;
        let time = CpuTime::begin();
        let nodes = self.nodes(key, job);
        let look = self.look(key, job, &nodes, &secrets);
        let is_overdue = is_overdue(job, &look, now().now);
        let due = due(job, &look, &secrets.references);
        self.limiter.worked(key, time.taken());
        let served = if is_overdue || look.lacks_secret {
            Ok(())
        } else {
            secrets.missing.iter().for_each(|name| self.record_missing(job, name));
            self.serve(job, &due, &secrets.references).await
        };
        let next = self.write_status(key, &secrets).await?;
        served?;
        let full = (due.full > 0).then_some(FULL);
        Ok(next
            .into_iter()
            .chain(next_reconcile(job, &look, now().now))
            .chain(full)
            .min()
            .map_or(Next::Done, Next::After))
    }

    /// Has the Pods kept that a job asks for, and finds out in which order they are updated.
    async fn find_pods(&self, key: &Key, job: &Job) -> Result<(), ReconcileError> {
        let Nodes::OfPods(_) = job.nodes else { return Ok(()) };
        self.stores.pods.want(KIND, key);
        self.stores.pods.complete(&self.client, &key.0).await?;
        if self.memory(key, |memory| memory.order.is_some()) {
            return Ok(());
        }
        let owner = job.object.metadata.controller();
        let owner = owner.filter(|owner| owner.kind == cloneset::KIND && owner.group() == api::APPS_GROUP);
        let order = match owner {
            None => UpdateOrder::default(),
            Some(owner) => {
                let sets = Resource::new(cloneset::API_VERSION, cloneset::PLURAL, cloneset::KIND);
                let set = write::get(&self.client, &sets.namespaced(&key.0).name(&owner.name)).await?;
                let order = set.map(|set| order_of_updates(&set)).transpose();
                order.map_err(ReconcileError::of_object(cloneset::KIND))?.unwrap_or_default()
            }
        };
        self.memory(key, |memory| memory.order = Some(order));
        Ok(())
    }

    /// How far a job is, and what it waits for.
    fn look<'n>(&self, key: &Key, job: &Job, nodes: &'n [Arc<NodeImage>], secrets: &Found) -> Look<'n> {
        let mut look = Look::at(job, nodes);
        look.hold(job, &self.stores.nodes.present());
        let of_pods: BTreeSet<String> = self.names_of_pods(key, job).into_iter().collect();
        let mut ready = self.stores.nodes.ready();
        ready.retain(|(name, labels)| {
            let belongs = job.nodes.include_named(name, labels);
            let is_known = || self.images.nodes.get(&(String::new(), name.to_string())).is_some();
            belongs.unwrap_or_else(|| of_pods.contains(&**name)) && !is_virtual(labels) && !is_known()
        });
        look.wait_for(job, ready.len(), &secrets.missing, now().now);
        look
    }

    /// The names of the nodes on which the Pods are that a job asks for, in the order in which they are served.
    fn names_of_pods(&self, key: &Key, job: &Job) -> Vec<String> {
        let Nodes::OfPods(_) = job.nodes else { return Vec::new() };
        let pods = self.stores.pods.of_namespace(&key.0);
        let order = self.memory(key, |memory| memory.order.clone()).unwrap_or_default();
        job.nodes_of(&pods, &order)
    }

    /// The NodeImages of a job, in the order in which they are served.
    fn nodes(&self, key: &Key, job: &Job) -> Vec<Arc<NodeImage>> {
        let named = |name: &String| self.images.nodes.get(&(String::new(), name.clone()));
        let mut nodes: Vec<Arc<NodeImage>> = match &job.nodes {
            Nodes::Named(names) => names.iter().filter_map(named).collect(),
            Nodes::OfPods(_) => self.names_of_pods(key, job).iter().filter_map(named).collect(),
            Nodes::All | Nodes::Labelled(_) => {
                let mut all = self.images.nodes.group(&NodeGroup::All);
                all.retain(|node| job.nodes.include(node).unwrap_or_default());
                all.sort_unstable_by(|one, other| one.name().cmp(other.name()));
                all
            }
        };
        nodes.retain(|node| node.metadata.deletion_timestamp.is_none());
        nodes
    }

    /// Writes to the nodes that are due, many at a time. One that fails stops no other: the next one takes its turn.
    async fn serve(&self, job: &Job, due: &Due<'_>, secrets: &[PullSecret]) -> Result<(), ReconcileError> {
        if due.full > 0 {
            let message = format!("{} nodes have as many images as they may have", due.full);
            self.record(job, Event { warning: true, reason: "TooManyImages", message });
        }
        let (mut free, mut failed) = (due.free, Vec::new());
        let (mut lacking, mut waiting) = (due.lacking.as_slice(), due.waiting.as_slice());
        loop {
            let is_new = lacking.is_empty();
            let (list, most) = if is_new { (&mut waiting, free) } else { (&mut lacking, AT_ONCE) };
            let size = most.min(AT_ONCE).min(list.len());
            let (batch, behind) = list.split_at_checked(size).unwrap_or_default();
            *list = behind;
            if batch.is_empty() {
                break;
            }
            let done = join_all(batch.iter().map(|node| self.hand_out(job, node, secrets))).await;
            for (node, done) in batch.iter().zip(done) {
                match done {
                    Ok(()) => free = free.saturating_sub(usize::from(is_new)),
                    Err(error) if error.retry() == Retry::WhenHealthy => return Err(error),
                    Err(error) => failed.push(format!("{}: {error}", node.name())),
                }
            }
        }
        match failed.first().cloned() {
            Some(first) => Err(ReconcileError::Several { of: "nodes", failed: failed.len(), first }),
            None => Ok(()),
        }
    }

    /// Gives one node its task, on the state that it has by now.
    async fn hand_out(
        &self,
        job: &Job,
        node: &NodeImage,
        secrets: &[PullSecret],
    ) -> Result<(), ReconcileError> {
        let path = NODE_IMAGES.all().name(node.name());
        let is_over = |owner: &shared::ObjectReference| {
            let known = self.images.jobs.get(&(owner.namespace.clone(), owner.name.clone()));
            known.is_some_and(|known| known.uid() == owner.uid && !known.is_active())
        };
        let mut newer: Option<Arc<NodeImage>> = None;
        for _ in 0..ATTEMPTS {
            let present = newer.as_deref().unwrap_or(node);
            let ttl = self.context.settings.task_ttl_seconds;
            // One that has become full meanwhile is reported the next time.
            let Ok(Some(patch)) = hand_out(job, present, secrets, ttl, is_over, now()) else { return Ok(()) };
            match write::patch(&self.client, &path, PatchKind::Json, patch).await {
                Ok(text) => return self.images.nodes.take_in(NODE_IMAGES.kind, Ok(text)).map(drop),
                Err(error) if error.is_conflict() => {
                    newer = self.images.nodes.read(&self.client, &NODE_IMAGES, &key(node.name())).await?;
                    if newer.is_none() {
                        return Ok(());
                    }
                }
                Err(error) if error.retry() == Retry::Now => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(ReconcileError::Action(format!("NodeImage {} changes all the time", node.name())))
    }

    /// Writes the status, as it is after what was handed out; gives when to do so where it has to wait.
    async fn write_status(&self, key: &Key, secrets: &Found) -> Result<Option<Duration>, ReconcileError> {
        let Some(job) = self.images.jobs.get(key).filter(|job| job.is_active()) else { return Ok(None) };
        let (status, patch) = {
            let nodes = self.nodes(key, &job);
            let status = status_of(&job, &self.look(key, &job, &nodes, secrets), now().now);
            let patch = patch(&job, &status);
            (status, patch)
        };
        let Some(patch) = patch else { return Ok(None) };
        if let Some(wait) = self.limiter.pace(key, status.completion_time.is_some()) {
            return Ok(Some(wait));
        }
        let done = self.write(&path_of(&job).subresource("status"), patch).await?;
        Ok((!done).then_some(OUTDATED_RETRY))
    }

    /// Patches a job; false where it was in another state.
    async fn write(&self, path: &Path, patch: String) -> Result<bool, ReconcileError> {
        self.images.jobs.take_in(KIND, write::patch(&self.client, path, PatchKind::Merge, patch).await)
    }

    fn record(&self, job: &Job, event: Event) {
        self.event_sender.record(job.reference(&PULL_JOBS), event);
    }
}

fn path_of(job: &Job) -> Path {
    PULL_JOBS.namespaced(job.namespace()).name(job.name())
}
