//! Controller `resourcedistribution-controller`: keeps the copies of a ResourceDistribution in its namespaces
//! equal to it (docs/behaviour/resourcedistribution.md). It runs with feature gate `ResourceDistributionGate`.
//!
//! ```text
//!   ResourceDistributions ------------.
//!   Namespaces (metadata) -------------+--(old, new)--> triggers --names--> queue
//!   Secrets, ConfigMaps (metadata) ---'
//!   reconcile: each target --> create, or GET --> patch --> write --.
//!              each copy elsewhere --> delete ----------------------+--> Outcome --> status
//! ```
//!
//! Contents are never kept: watches show metadata, and a copy is read when it is to be compared. Once it was
//! found equal it is not read again before it changes.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::resourcedistribution::{API_VERSION, KIND, PLURAL};
use cluster::ErrorReason;
use cluster::client::metadata_only;
use cluster::resource::{NAMESPACES, Resource};
use cluster::watched::Key;
use cluster::write::{self, PatchKind, unless_outdated};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::resourcedistribution::Distribution;
use kinds::resourcedistribution::copy::Copy;
use kinds::resourcedistribution::resource::{Resource as Distributed, ResourceKind};
use kinds::resourcedistribution::status::{CONFLICT, Failure, NO_NAMESPACE, Outcome};
use kinds::resourcedistribution::targets::{Place, TargetNamespace, Targets};
use kube::Client;
use tracing::warn;

use crate::metrics::objects;
use crate::workload::batches::growing;
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use crate::workload::store::follow::{Readable, follow_all};
use crate::workload::store::{Change, Identity, Kept, Store, key};
use crate::{Context, ReconcileError, now};

mod copies;
mod memory;

#[cfg(test)]
mod tests;

use copies::Copies;
use memory::Memory;

const NAME: &str = "resourcedistribution-controller";
const DISTRIBUTIONS: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
/// The most namespaces that are worked on at a time. It begins with one, so that a resource that is refused
/// everywhere costs few requests at a time.
const WIDEST_BATCH: usize = 64;
/// How often a copy is read that changes while it is written to.
const ATTEMPTS: usize = 3;

/// What ResourceDistributions are found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// All of them.
    All,
    /// Those that distribute this.
    Of(ResourceKind, Box<str>),
}

impl Kept for Distribution {
    type Group = Group;

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: "", name: &self.name, uid: &self.uid, resource_version: &self.resource_version }
    }

    fn groups(&self) -> Vec<Group> {
        let resource = self.resource.as_ref().ok();
        let of = resource.map(|resource| Group::Of(resource.kind, resource.name.clone()));
        std::iter::once(Group::All).chain(of).collect()
    }
}

impl Readable for Distribution {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}

impl Kept for TargetNamespace {
    type Group = ();

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: "", name: &self.name, uid: &self.uid, resource_version: &self.resource_version }
    }

    /// All are in one group.
    fn groups(&self) -> Vec<()> {
        vec![()]
    }
}

impl Readable for TargetNamespace {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}

struct Controller {
    client: Client,
    distributions: Store<Distribution>,
    namespaces: Store<TargetNamespace>,
    secrets: Store<Copy>,
    config_maps: Store<Copy>,
    memory: Memory,
}

/// What became of one namespace.
type Done = Result<(), (Failure, String)>;

/// Reconciles ResourceDistributions. Never returns.
pub async fn run(context: Context) {
    let light = metadata_only(context.client.clone());
    let settings = QueueSettings { name: NAME, workers: context.settings.resourcedistribution_workers };
    let builder = Builder::new(&context, settings, "Reconcile", |_| Controller::new(context.client.clone()))
        .watches((DISTRIBUTIONS, NAME), |all| &all.distributions, |_, change| of_distribution(change))
        .shows(
            &objects::resourcedistribution::TABLE,
            |all| all.distributions.all(),
            |distribution| distribution,
        )
        .watches_by(
            light.clone(),
            (NAMESPACES, "target-namespaces"),
            |all| &all.namespaces,
            Controller::of_namespace,
        );
    let kinds =
        [(ResourceKind::Secret, "distributed-secrets"), (ResourceKind::ConfigMap, "distributed-configmaps")];
    let woken = |builder: Builder<Controller>, (kind, cache): (ResourceKind, &'static str)| {
        let light = light.clone();
        builder
            .counts((cache, kind.name()), move |all| all.copies(kind).len())
            .beside(|controller, names| async move {
                let copies = Copies { kind, controller: &controller, names };
                tokio::join!(follow_all(&light, objects(kind), &copies), copies.forward());
            })
            .after(move |controller| async move { controller.copies(kind).synced().await })
    };
    kinds.into_iter().fold(builder, woken).run().await;
}

impl Reconciler for Controller {
    type Key = Box<str>;
    type Error = ReconcileError;

    async fn reconcile(&self, name: &Box<str>) -> Result<Next, ReconcileError> {
        let distribution = self.distributions.get(&key(name));
        // The garbage collector deletes the copies of one that is being deleted.
        let Some(distribution) = distribution.filter(|distribution| !distribution.deleting) else {
            self.memory.forget(name);
            return Ok(Next::Done);
        };
        let problem = match (&distribution.resource, &distribution.targets) {
            (Ok(resource), Ok(targets)) => return self.advance(&distribution, resource, targets).await,
            (Err(problem), _) => problem.to_string(),
            (_, Err(problem)) => problem.to_string(),
        };
        // Until the spec changes nothing can be done.
        warn!(resource_distribution = &**name, problem, "it can't be distributed");
        Ok(Next::Done)
    }

    fn object(&self, name: &Box<str>) -> Option<ObjectReference> {
        self.distributions.get(&key(name)).map(|distribution| distribution.reference(&DISTRIBUTIONS))
    }
}

/// A ResourceDistribution that is new, is gone, or says something else.
fn of_distribution(change: &Change<Distribution>) -> Option<(Box<str>, Duration)> {
    let said = |state: &Arc<Distribution>| (state.uid.clone(), state.generation, state.deleting);
    let news = change.old.as_ref().map(said) != change.new.as_ref().map(said);
    let name = change.states().next()?.name.as_str();
    news.then(|| (name.into(), Duration::ZERO))
}

impl Controller {
    fn new(client: Client) -> Self {
        Self {
            client,
            distributions: Store::default(),
            namespaces: Store::default(),
            secrets: Store::default(),
            config_maps: Store::default(),
            memory: Memory::default(),
        }
    }

    fn copies(&self, kind: ResourceKind) -> &Store<Copy> {
        match kind {
            ResourceKind::Secret => &self.secrets,
            ResourceKind::ConfigMap => &self.config_maps,
        }
    }

    /// The ResourceDistributions for which a namespace becomes a target, or stops to be one.
    fn of_namespace(&self, change: &Change<TargetNamespace>) -> Vec<(Box<str>, Duration)> {
        let Some(name) = change.states().next().map(|namespace| namespace.name.as_str()) else {
            return Vec::new();
        };
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let mut concerned = self.distributions.group(&Group::All);
        // One whose selector can't be used is left out, and stops no other.
        concerned.retain(|distribution| {
            distribution.targets.as_ref().is_ok_and(|targets| targets.concerns(name, old, new))
        });
        concerned.iter().map(|distribution| (distribution.name.as_str().into(), Duration::ZERO)).collect()
    }

    async fn advance(
        &self,
        distribution: &Distribution,
        resource: &Distributed,
        targets: &Targets,
    ) -> Result<Next, ReconcileError> {
        let namespaces = self.namespaces.group(&());
        let matched = Distribution::matched(targets, namespaces.iter().map(|namespace| &**namespace));
        self.memory.begin(distribution, resource, |namespace| matched.contains_key(namespace));
        let mut outcome = Outcome::of(matched.len());
        let mut due = Vec::new();
        for (namespace, place) in matched {
            match self.known(distribution, resource, namespace).filter(|_| place == Place::Target) {
                Some(done) => note(&mut outcome, namespace, done),
                None if place == Place::Target => due.push(namespace),
                None => outcome.failed(Failure::NoNamespace, namespace, NO_NAMESPACE),
            }
        }
        let distributed = self
            .in_batches(distribution, due, &mut outcome, |namespace| {
                self.distribute(distribution, resource, namespace)
            })
            .await;
        let surplus = self.surplus(distribution, resource, targets);
        let surplus = surplus.iter().map(|copy| &*copy.namespace).collect();
        let cleaned = distributed
            && self
                .in_batches(distribution, surplus, &mut outcome, |namespace| {
                    self.clean(distribution, resource, namespace)
                })
                .await;
        if !cleaned {
            // The change that ended this pass has queued the next one.
            return Ok(Next::Done);
        }
        let written = self.write_status(distribution, &outcome).await?;
        if let Some((failed, first)) = outcome.to_try_again() {
            return Err(ReconcileError::Several { of: "namespaces", failed, first });
        }
        if !written {
            return Ok(Next::After(OUTDATED_RETRY));
        }
        Ok(self.memory.next_reconcile(&distribution.name).map_or(Next::Done, Next::After))
    }

    /// Works on namespaces in batches that grow, in the order of their names; false if the ResourceDistribution
    /// changed meanwhile. One that fails stops no other.
    async fn in_batches<'a, W: Future<Output = Option<Done>>>(
        &self,
        distribution: &Distribution,
        mut namespaces: Vec<&'a str>,
        outcome: &mut Outcome,
        work: impl Fn(&'a str) -> W,
    ) -> bool {
        namespaces.sort_unstable();
        for batch in growing(&namespaces, WIDEST_BATCH) {
            let present = self.distributions.get(&key(&distribution.name));
            let said = |state: &Distribution| (state.uid.clone(), state.generation, state.deleting);
            if present.is_none_or(|present| said(&present) != said(distribution)) {
                return false;
            }
            let done = join_all(batch.iter().map(|namespace| work(namespace))).await;
            for (namespace, done) in batch.iter().zip(done) {
                if let Some(done) = done {
                    note(outcome, namespace, done);
                }
            }
        }
        true
    }

    /// What is known of a target without a request.
    fn known(&self, distribution: &Distribution, resource: &Distributed, namespace: &str) -> Option<Done> {
        let conflict = || Some(Err((Failure::Conflict, CONFLICT.to_owned())));
        match self.copies(resource.kind).get(&(namespace.to_owned(), resource.name.to_string())) {
            Some(copy) if !copy.is_owned_by(distribution) => conflict(),
            Some(copy) => self.memory.is_equal(&distribution.name, &copy).then_some(Ok(())),
            None if self.memory.is_foreign(&distribution.name, namespace) => conflict(),
            None => None,
        }
    }

    /// Sees to the copy in a target.
    async fn distribute(
        &self,
        distribution: &Distribution,
        resource: &Distributed,
        namespace: &str,
    ) -> Option<Done> {
        let key = (namespace.to_owned(), resource.name.to_string());
        let mut exists = self.copies(resource.kind).get(&key).is_some();
        let mut trouble = String::new();
        for _ in 0..ATTEMPTS {
            let tried = if exists {
                self.update(distribution, resource, &key).await
            } else {
                self.create(distribution, resource, namespace).await
            };
            match tried {
                Tried::Done(done) => return Some(done),
                Tried::Exists => exists = true,
                Tried::Gone => exists = false,
                Tried::Changed(error) => trouble = error,
            }
        }
        Some(Err((Failure::Update, trouble)))
    }

    async fn create(&self, distribution: &Distribution, resource: &Distributed, namespace: &str) -> Tried {
        let copy = match resource.copy(distribution, namespace) {
            Ok(copy) => copy,
            Err(error) => return Tried::failed(Failure::Create, error),
        };
        match write::create(&self.client, &objects(resource.kind).namespaced(namespace), copy).await {
            Ok(text) => self.take_in(distribution, resource, &text),
            Err(error) => match error.reason() {
                ErrorReason::AlreadyExists => Tried::Exists,
                ErrorReason::NotFound | ErrorReason::NamespaceTerminating => {
                    Tried::failed(Failure::NoNamespace, NO_NAMESPACE)
                }
                _ => Tried::failed(Failure::Create, error),
            },
        }
    }

    /// Reads a copy and makes it equal.
    async fn update(&self, distribution: &Distribution, resource: &Distributed, key: &Key) -> Tried {
        let path = objects(resource.kind).namespaced(&key.0).name(&key.1);
        let text = match write::get(&self.client, &path).await {
            Ok(Some(text)) => text,
            Ok(None) => return Tried::Gone,
            Err(error) => return Tried::failed(Failure::Get, error),
        };
        match Copy::read(&text) {
            Err(error) => return Tried::failed(Failure::Get, error),
            Ok(copy) if !copy.is_owned_by(distribution) => {
                self.memory.foreign(&distribution.name, &key.0);
                return Tried::failed(Failure::Conflict, CONFLICT);
            }
            Ok(_) => {}
        }
        let patch = match resource.patch(distribution, &text) {
            Ok(Some(patch)) => patch,
            Ok(None) => return self.take_in(distribution, resource, &text),
            Err(error) => return Tried::failed(Failure::Update, error),
        };
        match write::patch(&self.client, &path, PatchKind::StrategicMerge, patch).await {
            Ok(text) => self.take_in(distribution, resource, &text),
            Err(error) if error.reason() == ErrorReason::NotFound => Tried::Gone,
            Err(error) if error.is_conflict() => Tried::Changed(error.to_string()),
            Err(error) => Tried::failed(Failure::Update, error),
        }
    }

    /// Takes in a copy that is equal.
    fn take_in(&self, distribution: &Distribution, resource: &Distributed, text: &str) -> Tried {
        match Copy::read(text) {
            Ok(copy) => {
                // First, so that the change which the store reports is known to be ours.
                self.memory.equal(&distribution.name, &copy);
                self.copies(resource.kind).written(copy);
                Tried::Done(Ok(()))
            }
            Err(error) => Tried::failed(Failure::Get, error),
        }
    }

    /// The copies in namespaces that are no targets.
    fn surplus(
        &self,
        distribution: &Distribution,
        resource: &Distributed,
        targets: &Targets,
    ) -> Vec<Arc<Copy>> {
        let mut copies = self.copies(resource.kind).group(&distribution.uid.as_str().into());
        copies.retain(|copy| {
            let namespace = self.namespaces.get(&key(&copy.namespace));
            copy.name == resource.name
                && !copy.deleting
                && targets.place(&copy.namespace, namespace.as_deref()) == Place::Elsewhere
        });
        copies
    }

    /// Deletes the copy in a namespace that is no target.
    async fn clean(
        &self,
        distribution: &Distribution,
        resource: &Distributed,
        namespace: &str,
    ) -> Option<Done> {
        let key = (namespace.to_owned(), resource.name.to_string());
        let copy = self.copies(resource.kind).get(&key).filter(|copy| copy.is_owned_by(distribution))?;
        let path = objects(resource.kind).namespaced(namespace).name(&copy.name);
        // It may have got another owner since the watch reported it.
        let options = write::deletion(&copy.uid, Some(&copy.resource_version));
        // The watch reports what was deleted or changed, and starts a reconcile.
        let error = unless_outdated(write::delete(&self.client, &path, options).await).err()?;
        Some(Err((Failure::Delete, error.to_string())))
    }

    /// Brings the status up to date; false if the ResourceDistribution has changed or is gone.
    async fn write_status(
        &self,
        distribution: &Distribution,
        outcome: &Outcome,
    ) -> Result<bool, ReconcileError> {
        let Some(patch) = outcome.patch(distribution, now().now) else { return Ok(true) };
        let path = DISTRIBUTIONS.all().name(&distribution.name).subresource("status");
        self.distributions.take_in(KIND, write::patch(&self.client, &path, PatchKind::Merge, patch).await)
    }
}

/// What came of one try.
enum Tried {
    Done(Done),
    /// Something has the name already.
    Exists,
    /// What had the name is gone.
    Gone,
    /// The copy changed meanwhile.
    Changed(String),
}

impl Tried {
    fn failed(failure: Failure, error: impl std::fmt::Display) -> Self {
        Self::Done(Err((failure, error.to_string())))
    }
}

fn note(outcome: &mut Outcome, namespace: &str, done: Done) {
    match done {
        Ok(()) => outcome.succeeded(),
        Err((failure, text)) => outcome.failed(failure, namespace, text),
    }
}

/// What ResourceDistributions distribute.
fn objects(kind: ResourceKind) -> Resource<'static> {
    Resource::new("v1", kind.plural(), kind.name())
}
