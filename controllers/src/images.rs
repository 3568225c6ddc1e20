//! What the controllers of images share: the NodeImages, the ImagePullJobs and the copies of pull Secrets, each kind
//! watched once (docs/behaviour/images.md).
//!
//! ```text
//!   Nodes ------------> nodeimage        one NodeImage for each Node; what is over leaves it
//!   ImagePullJobs ----> imagepulljob     hands tasks to NodeImages, counts, copies pull Secrets
//!   ImageListPullJobs > imagelistpulljob one ImagePullJob for each image
//! ```

use std::sync::Arc;

use api::kinds::imagepulljob;
use api::kinds::nodeimage::{self, NodeImage};
use cluster::client::metadata_only;
use cluster::resource::{NODE_IMAGES, Resource, SECRETS};
use cluster::watched::WatchedObject;
use kinds::imagepulljob::copies::{self, Copy};
use kinds::imagepulljob::{Job, Nodes};
use kinds::workload::image_task;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use tracing::warn;

use crate::metrics::{Metrics, objects};
use crate::workload::store::follow::{Readable, follow, follow_all, is_gone};
use crate::workload::store::{Identity, Kept, Store};

pub(crate) const PULL_JOBS: Resource<'_> =
    Resource::new(imagepulljob::API_VERSION, imagepulljob::PLURAL, imagepulljob::KIND);

/// What NodeImages are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeGroup {
    /// All of them.
    All,
    /// The UID of an owner of a task.
    Owner(Box<str>),
}

impl Kept for NodeImage {
    type Group = NodeGroup;

    fn identity(&self) -> Identity<'_> {
        Identity::from(&self.metadata)
    }

    fn groups(&self) -> Vec<NodeGroup> {
        let owners = image_task::owners(self).map(|owner| NodeGroup::Owner(owner.uid.as_str().into()));
        std::iter::once(NodeGroup::All).chain(owners).collect()
    }
}

impl Readable for NodeImage {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        let mut node: Self = serde_json::from_str(json)?;
        // Thousands of them are kept, and nobody reads these.
        node.metadata.annotations.clear();
        Ok(node)
    }
}

/// What ImagePullJobs are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobGroup {
    /// Those that have still something to do.
    Active,
    /// Of those, the ones for images of this name.
    Image(Box<str>),
    /// Of those, the ones for the nodes of Pods of this namespace.
    Pods(Box<str>),
    /// Of those, the ones that pull only where Nodes show something.
    Conditional,
    /// Of those, the ones that pull with this Secret, by namespace and name in one word.
    Secret(Box<str>),
    /// The UID of the controller.
    Owner(Box<str>),
}

impl Kept for Job {
    type Group = JobGroup;

    fn identity(&self) -> Identity<'_> {
        let metadata = &self.object.metadata;
        Identity::from(metadata)
    }

    fn groups(&self) -> Vec<JobGroup> {
        let owner = self.object.metadata.controller();
        let mut groups: Vec<JobGroup> =
            owner.map(|owner| JobGroup::Owner(owner.uid.as_str().into())).into_iter().collect();
        if self.is_active() {
            groups.extend([JobGroup::Active, JobGroup::Image(self.image.name.as_str().into())]);
            if let Nodes::OfPods(_) = self.nodes {
                groups.push(JobGroup::Pods(self.object.metadata.namespace.as_str().into()));
            }
            groups.extend((!self.when.is_empty()).then_some(JobGroup::Conditional));
            let secrets = self.object.spec.pull_secrets.iter();
            groups.extend(secrets.map(|name| JobGroup::Secret(copies::source(self, name).into())));
        }
        groups
    }
}

impl Readable for Job {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        let job = Self::read(json)?;
        if let Some(fault) = &job.fault {
            warn!(namespace = job.namespace(), name = job.name(), fault, "an ImagePullJob can't be used");
        }
        Ok(job)
    }

    fn is_gone(&self) -> bool {
        is_gone(&self.object.metadata)
    }
}

/// What Secrets of the agents are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CopyGroup {
    /// Namespace and name of the source.
    Source(Box<str>),
    /// Namespace and name of a job that uses it.
    User(Box<str>),
}

impl Kept for Copy {
    type Group = CopyGroup;

    fn identity(&self) -> Identity<'_> {
        Identity {
            namespace: &self.namespace,
            name: &self.observed.name,
            uid: &self.observed.uid,
            resource_version: &self.observed.resource_version,
        }
    }

    fn groups(&self) -> Vec<CopyGroup> {
        let users = self.users.iter().map(|user| CopyGroup::User(user.as_str().into()));
        users.chain([CopyGroup::Source(self.source.as_str().into())]).collect()
    }
}

impl Readable for Copy {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}

/// What is watched for the controllers of images.
#[derive(Default)]
pub(crate) struct Images {
    pub(crate) nodes: Store<NodeImage>,
    pub(crate) jobs: Store<Job>,
    /// The Secrets that agents may read, without their content.
    pub(crate) copies: Store<Copy>,
}

impl Images {
    /// Has what they hold counted, and the jobs shown.
    pub(crate) fn count(self: &Arc<Self>, metrics: &Metrics) {
        let caches = &metrics.caches;
        caches.count("nodeimages", nodeimage::KIND, self, |all| all.nodes.len());
        caches.count("imagepulljobs", imagepulljob::KIND, self, |all| all.jobs.len());
        caches.count("pull-secrets", SECRETS.kind, self, |all| all.copies.len());
        metrics.objects.show(&objects::imagepulljob::TABLE, self, |all| all.jobs.all(), |job| &job.object);
    }
}

/// Keeps them current; the copies only where their namespace is given. Never returns.
pub(crate) async fn watch(images: Arc<Images>, client: Client, config_namespace: Option<String>) {
    let light = metadata_only(client.clone());
    let copies = async {
        if let Some(namespace) = &config_namespace {
            let api = Api::<WatchedObject>::namespaced_with(light, namespace, &SECRETS.api_resource());
            follow(api, Config::default(), &images.copies).await;
        }
    };
    tokio::join!(
        follow_all(&client, NODE_IMAGES, &images.nodes),
        follow_all(&client, PULL_JOBS, &images.jobs),
        copies,
    );
}
