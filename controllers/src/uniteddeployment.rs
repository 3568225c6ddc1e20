//! Controller `uniteddeployment-controller`: keeps a workload for each subset of a UnitedDeployment
//! (docs/behaviour/uniteddeployment.md#the-controller). What to do is decided by `kinds::uniteddeployment`.
//!
//! ```text
//!   UnitedDeployments ----------------------------------------------.
//!   StatefulSets, CloneSets, Deployments (the workloads), Pods ------+--(old, new)--> triggers --keys--> queue
//!   reconcile: revision --> adoptions --> labels of Pods --> creations --> deletions --> updates --> status
//! ```
//!
//! What can't be created for one subset stops no other creation, but existing workloads are neither deleted nor changed in
//! that reconcile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::uniteddeployment::{API_VERSION, KIND, PLURAL, UnitedDeployment};
use api::labels::SUBSET_NAME;
use cluster::Retry;
use cluster::event_sender::EventSender;
use cluster::resource::Resource;
use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::uniteddeployment::children::{Child, ChildKind};
use kinds::uniteddeployment::plan::{Plan, Snapshot, plan};
use kinds::uniteddeployment::{Draft, Failure, trigger};
use kinds::workload::revision::RevisionStep;
use kube::Client;
use pod::observed::ObservedPod;
use values::event::{Event, warning};

use crate::metrics::objects;
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler, touched};
use crate::workload::controller_revisions::Group as RevisionGroup;
use crate::workload::limiter::Limiter;
use crate::workload::owned;
use crate::workload::revisions::RevisionWriter;
use crate::workload::store::follow::Whole;
use crate::workload::store::{Change, Kept, Store, named};
use crate::workload::stores::Stores;
use crate::workload::unconfirmed::{Unconfirmed, Unread};
use crate::{Context, ReconcileError, now};

mod carry_out;
mod children;

use carry_out::Outcome;
use children::{Children, Group};

const NAME: &str = "uniteddeployment-controller";
const UNITED: Resource<'_> = Resource::new(API_VERSION, PLURAL, KIND);
/// Plans until the revision that is wanted must be there.
const PLANS: usize = 3;
/// How often a write is tried that meets changes of others.
const TRIES: usize = 5;

impl Whole for UnitedDeployment {}

struct Controller {
    context: Context,
    stores: Arc<Stores>,
    united: Store<UnitedDeployment>,
    children: [Children; 4],
    limiter: Limiter<Key>,
    unconfirmed: Unconfirmed<Key>,
    event_sender: EventSender,
}

/// Reconciles UnitedDeployments. Never returns.
pub(crate) async fn run(context: Context, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.uniteddeployment_workers };
    let of_pods = stores.pods.subscribe();
    Builder::new(&context, settings, "Reconcile", |event_sender| Controller {
        context: context.clone(),
        stores,
        united: Store::default(),
        children: ChildKind::ALL.map(Children::new),
        limiter: Limiter::default(),
        unconfirmed: Unconfirmed::default(),
        event_sender,
    })
    .watches(
        (UNITED, NAME),
        |all| &all.united,
        |all, change| {
            let news = trigger::of_united(change.old.as_deref(), change.new.as_deref());
            touched(all, change).filter(|_| news)
        },
    )
    .shows(&objects::uniteddeployment::TABLE, |all| all.united.all(), |united| united)
    .woken_by(of_pods, Controller::of_pod)
    .counts(("uniteddeployment-workloads", "Deployment"), |all| {
        all.children_of(ChildKind::Deployment).stored.len()
    })
    .beside(|all, keys| async move {
        let of_child = |change: &Change<Child>| all.of_child(change);
        owned::follow(&all.context.client, &all.children, &keys, of_child).await;
    })
    .after(|all| async move {
        all.stores.synced().await;
        owned::listed(&all.children).await;
    })
    .run()
    .await;
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let Some(united) = self.united.get(key) else {
            self.unconfirmed.forget(key);
            self.limiter.forget(key);
            return Ok(Next::Done);
        };
        let wanted = ChildKind::of(&united.spec.template);
        if let Some(kind) = wanted.filter(|kind| !self.children_of(*kind).stored.is_synced()) {
            let error = ReconcileError::NotListed(kind.display_name());
            let status = Draft::unknown(&united, now().now);
            return self.fail(&united, "FailedFindSubsets", error, Some(status)).await;
        }
        let read = async |(resource, (namespace, _)): Unread| {
            let mut of_kind = self.children.iter().filter(|children| children.resource() == resource);
            match of_kind.next() {
                Some(children) => children.read_all(self.client(), &namespace).await,
                None => Ok(()),
            }
        };
        self.unconfirmed.confirm(key, read).await?;
        let (mut plan, error) = self.planned(&united).await;
        match error {
            None => {}
            Some(ReconcileError::Ending(_)) => return Ok(Next::After(OUTDATED_RETRY)),
            Some(error) => return self.fail(&united, "FailedRevisionProvision", error, plan.status).await,
        }
        std::mem::take(&mut plan.events).into_iter().for_each(|event| self.record(&united, event));
        let outcome = match plan.problem.take() {
            Some(problem) => Outcome { failure: Some(Failure::Provision(problem)), is_outdated: false },
            None => self.carry_out(&united, &mut plan).await?,
        };
        let held = self.write_status(&united, plan.status, outcome.failure.as_ref()).await?;
        let soon = outcome.is_outdated.then_some(OUTDATED_RETRY);
        let again = [held, plan.again, soon].into_iter().flatten().min();
        match (outcome.failure, again) {
            (None, again) => Ok(again.map_or(Next::Done, Next::After)),
            (Some(Failure::Provision(problem) | Failure::Update(problem)), Some(within)) => {
                Err(ReconcileError::Due { problem, within })
            }
            (Some(Failure::Provision(problem) | Failure::Update(problem)), None) => {
                Err(ReconcileError::Action(problem))
            }
        }
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.united.get(key).map(|united| united.reference(&UNITED))
    }
}

impl Controller {
    fn client(&self) -> &Client {
        &self.context.client
    }

    fn children_of(&self, kind: ChildKind) -> &Children {
        let [advanced, clone_sets, deployments, stateful] = &self.children;
        match kind {
            ChildKind::AdvancedStatefulSet => advanced,
            ChildKind::CloneSet => clone_sets,
            ChildKind::Deployment => deployments,
            ChildKind::StatefulSet => stateful,
        }
    }

    /// The UnitedDeployment of a workload; of one that nobody manages those that could adopt it.
    fn of_child(&self, change: &Change<Child>) -> Vec<(Key, Duration)> {
        if !trigger::of_child(change.old.as_deref(), change.new.as_deref()) {
            return Vec::new();
        }
        let owners = change
            .states()
            .filter_map(|child| Some((child.namespace.to_string(), child.owner.as_ref()?.0.to_string())));
        let mut keys: BTreeSet<Key> = owners.collect();
        if let Some(orphan) = change.new.as_ref().filter(|child| child.owner.is_none()) {
            let near = self.united.group(&orphan.namespace);
            keys.extend(
                near.iter().filter(|united| trigger::could_serve(orphan, united)).map(|near| near.key()),
            );
        }
        keys.into_iter().map(|key| (key, Duration::ZERO)).collect()
    }

    /// The UnitedDeployment with the workload that the Pod belongs to.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
        if !trigger::of_pod(change.old.as_deref(), change.new.as_deref()) {
            return Vec::new();
        }
        let owners: BTreeSet<Key> = change.states().flat_map(|pod| self.owners_of(pod)).collect();
        owners.into_iter().map(|key| (key, Duration::ZERO)).collect()
    }

    fn owners_of(&self, pod: &ObservedPod) -> Vec<Key> {
        let namespace = &pod.metadata.namespace;
        let Some(subset) = pod.label(SUBSET_NAME) else { return Vec::new() };
        let group = Group::Subset(named(namespace, subset));
        let children = self.children.iter().flat_map(|children| children.stored.group(&group));
        let own = children.filter(|child| child.runs(pod));
        own.filter_map(|child| Some((namespace.to_string(), child.owner.as_ref()?.0.to_string()))).collect()
    }

    /// A plan, once the revision is there that it needs, or why that can't be had.
    async fn planned(&self, united: &UnitedDeployment) -> (Plan, Option<ReconcileError>) {
        let mut plan = self.plan(united);
        for _ in 1..PLANS {
            let Some(step) = plan.revision.take() else { return (plan, None) };
            if let Err(error) = self.write_revision(united, step).await {
                return (plan, Some(error));
            }
            plan = self.plan(united);
        }
        let error = plan.revision.is_some().then_some(ReconcileError::Unsettled);
        (plan, error)
    }

    async fn write_revision(
        &self,
        united: &UnitedDeployment,
        step: RevisionStep,
    ) -> Result<(), ReconcileError> {
        let may_adopt = matches!(step, RevisionStep::Patch { .. });
        if may_adopt && !self.still_exists(united).await? {
            return Err(ReconcileError::Ending(KIND));
        }
        self.revisions(united).write(step).await.map(drop)
    }

    /// It is still there, and is not being deleted: only then may it adopt anything.
    async fn still_exists(&self, united: &UnitedDeployment) -> Result<bool, ReconcileError> {
        let now = self.united.read(self.client(), &UNITED, &united.key()).await?;
        let exists =
            |now: &UnitedDeployment| now.uid() == united.uid() && now.metadata.deletion_timestamp.is_none();
        Ok(now.as_deref().is_some_and(exists))
    }

    /// Reports why nothing can be done. What changed meanwhile is only reconciled again, and a namespace that is being
    /// deleted is left alone.
    async fn fail(
        &self,
        united: &UnitedDeployment,
        reason: &'static str,
        error: ReconcileError,
        status: Option<Draft>,
    ) -> Result<Next, ReconcileError> {
        if !matches!(error.retry(), Retry::Now | Retry::Never) {
            let problem = error.message();
            self.record(united, warning(reason, problem.clone()));
            self.write_status(united, status, Some(&Failure::Provision(problem))).await?;
        }
        Err(error)
    }

    fn plan(&self, united: &UnitedDeployment) -> Plan {
        let metadata = &united.metadata;
        let namespace = metadata.namespace.as_str();
        let groups = [Group::Owner(metadata.uid.as_str().into()), Group::Orphans(namespace.into())];
        let children = self.children.iter().flat_map(|children| {
            groups.iter().flat_map(|group| children.stored.group(group)).collect::<Vec<_>>()
        });
        let children: Vec<Arc<Child>> = children.collect();
        let mut subsets: Vec<&str> = children.iter().map(|child| &*child.subset).collect();
        subsets.sort_unstable();
        subsets.dedup();
        let pods = subsets.into_iter().flat_map(|subset| self.stores.pods.of_subset(namespace, subset));
        let stored = &self.stores.revisions.stored;
        let mut revisions = stored.group(&RevisionGroup::Owner(metadata.uid.as_str().into()));
        revisions.extend(stored.group(&RevisionGroup::Orphans(namespace.into())));
        plan(&Snapshot {
            united,
            children: &children,
            pods: &pods.collect::<Vec<_>>(),
            revisions: &revisions,
            now: now().now,
        })
    }

    fn revisions<'a>(&'a self, united: &'a UnitedDeployment) -> RevisionWriter<'a> {
        RevisionWriter {
            client: self.client(),
            stored: &self.stores.revisions.stored,
            namespace: &united.metadata.namespace,
        }
    }

    /// Brings the status up to date; gives when to do it if not now. One that has changed meanwhile gets all the same
    /// what was done: a subset without capacity may not be observed again.
    async fn write_status(
        &self,
        united: &UnitedDeployment,
        draft: Option<Draft>,
        failure: Option<&Failure>,
    ) -> Result<Option<Duration>, ReconcileError> {
        let Some(draft) = draft else { return Ok(None) };
        let path = UNITED.namespaced(united.namespace()).name(united.name()).subresource("status");
        let mut latest: Option<Arc<UnitedDeployment>> = None;
        for _ in 0..TRIES {
            let known = latest.as_deref().unwrap_or(united);
            let Some(status) = draft.clone().patch(known, failure) else { return Ok(None) };
            if latest.is_none()
                && let Some(held) = self.limiter.pace(&united.key(), status.is_urgent)
            {
                return Ok(Some(held));
            }
            let answer = write::patch(self.client(), &path, PatchKind::Merge, status.patch).await;
            if self.united.take_in(KIND, answer)? {
                return Ok(None);
            }
            latest = self.united.read(self.client(), &UNITED, &united.key()).await?;
            latest = latest.filter(|latest| latest.uid() == united.uid());
            if latest.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(OUTDATED_RETRY))
    }

    fn record(&self, united: &UnitedDeployment, event: Event) {
        self.event_sender.record(united.reference(&UNITED), event);
    }
}

#[cfg(test)]
mod tests;
