//! Controller `nodeimage-controller`: each Node has a NodeImage, and tasks leave it when they are over
//! (docs/behaviour/images.md#the-controller-of-nodeimages). What to do is decided by `kinds::nodeimage`.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::nodeimage::{KIND, PullSecret};
use api::kinds::shared;
use cluster::events::about;
use cluster::resource::NODE_IMAGES;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::imagepulljob::Job;
use kinds::nodeimage::plan::{Node, Owner, Plan, Step, plan};
use kinds::workload::image_pull::is_endless;
use kube::Client;

use crate::images::{Images, NodeGroup};
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use crate::workload::store::{Change, Kept, key};
use crate::workload::stores::Stores;
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;

const NAME: &str = "nodeimage-controller";

struct Controller {
    client: Client,
    images: Arc<Images>,
    stores: Arc<Stores>,
    context: Context,
    event_sender: EventSender,
}

/// Reconciles NodeImages. Never returns.
pub(crate) async fn run(context: Context, images: Arc<Images>, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.nodeimage_workers };
    Builder::new(&context, settings, "PullImage", |event_sender| Controller {
        client: context.client.clone(),
        images: images.clone(),
        stores: stores.clone(),
        context: context.clone(),
        event_sender,
    })
    .woken_by(images.nodes.subscribe(), |_, change| {
        change.states().next().map(|node| (Box::from(node.name()), Duration::ZERO))
    })
    .woken_by(images.jobs.subscribe(), Controller::of_job)
    .beside(|all, names| async move { all.stores.nodes.forward(names).await })
    .after(|_| async move {
        images.nodes.synced().await;
        // Until Nodes are listed, each of them would seem to be gone.
        while stores.nodes.facts().await.is_err() {}
    })
    .run()
    .await;
}

impl Reconciler for Controller {
    type Key = Box<str>;
    type Error = ReconcileError;

    async fn reconcile(&self, name: &Box<str>) -> Result<Next, ReconcileError> {
        let node = self.stores.nodes.get(name).map(|(labels, standing)| Node {
            labels: labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            ready_since: standing.ready_since,
            deleting: standing.deleting,
        });
        let image = self.images.nodes.get(&key(name));
        let Plan { step, again } = {
            let owner = |reference: &shared::ObjectReference| self.owner(reference);
            let gone = |secret: &PullSecret| self.is_gone(secret);
            let context = kinds::nodeimage::plan::Context {
                owner: &owner,
                secret_is_gone: &gone,
                creation_delay: self.context.settings.nodeimage_creation_delay,
            };
            plan(name, node.as_ref(), image.as_deref(), context, now())
        };
        let done = self.carry_out(name, step).await?;
        let again = if done { again } else { Some(OUTDATED_RETRY) };
        Ok(again.map_or(Next::Done, Next::After))
    }

    fn object(&self, name: &Box<str>) -> Option<ObjectReference> {
        self.images.nodes.get(&key(name)).map(|node| node.reference(&NODE_IMAGES))
    }
}

impl Controller {
    /// The NodeImages of a job that has ended or is gone: its tasks need not stay any longer.
    fn of_job(&self, change: &Change<Job>) -> Vec<(Box<str>, Duration)> {
        let Some(old) = &change.old else { return Vec::new() };
        let goes_on = change
            .new
            .as_ref()
            .is_some_and(|new| new.uid() == old.uid() && (new.is_active() || !old.is_active()));
        if goes_on {
            return Vec::new();
        }
        let nodes = self.images.nodes.group(&NodeGroup::Owner(old.uid().into()));
        nodes.iter().map(|node| (Box::from(node.name()), Duration::ZERO)).collect()
    }

    /// What is known of the job that a task names.
    fn owner(&self, reference: &shared::ObjectReference) -> Owner {
        if !self.images.jobs.is_synced() {
            return Owner::Alive;
        }
        let job = self.images.jobs.get(&(reference.namespace.clone(), reference.name.clone()));
        let Some(job) = job.filter(|job| job.uid() == reference.uid) else { return Owner::Gone };
        let completed = job.object.status.completion_time.as_ref().and_then(|time| time.timestamp());
        match completed {
            Some(time) => Owner::Ended(time),
            None if job.is_active() && !is_endless(&job.object.spec) => Owner::Holds,
            None => Owner::Alive,
        }
    }

    /// Whether a Secret is known to be gone: only those of the agents are watched.
    fn is_gone(&self, secret: &PullSecret) -> bool {
        let copies = &self.images.copies;
        secret.namespace == self.context.settings.config_namespace
            && copies.is_synced()
            && copies.get(&(secret.namespace.clone(), secret.name.clone())).is_none()
    }

    /// Does what is planned; false where the NodeImage was in another state.
    async fn carry_out(&self, name: &str, step: Step) -> Result<bool, ReconcileError> {
        let path = NODE_IMAGES.all().name(name);
        let written = match step {
            Step::Nothing => return Ok(true),
            Step::Create(object) => write::create(&self.client, &NODE_IMAGES.all(), object).await,
            Step::Delete(observed) => {
                unless_outdated(write::delete(&self.client, &path, deletion(&observed.uid, None)).await)?;
                self.images.nodes.deleted(&key(name), &observed.resource_version);
                return Ok(true);
            }
            Step::Change(patch) => write::patch(&self.client, &path, PatchKind::Json, patch).await,
            Step::Fail(patch, reported) => {
                let path = path.subresource("status");
                let written = write::patch(&self.client, &path, PatchKind::Merge, patch).await;
                if written.is_ok() {
                    for (object, event) in reported {
                        self.event_sender.record(reference(object), event);
                    }
                }
                written
            }
        };
        self.images.nodes.take_in(KIND, written)
    }
}

/// An owner or a NodeImage, as Events refer to it.
fn reference(object: shared::ObjectReference) -> ObjectReference {
    let namespace = Some(object.namespace).filter(|namespace| !namespace.is_empty());
    ObjectReference { namespace, ..about(&object.api_version, &object.kind, &object.name, &object.uid) }
}
