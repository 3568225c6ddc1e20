//! Controller `podunavailablebudget-controller`: counts what PodUnavailableBudgets have left, and marks their Pods
//! (docs/behaviour/podunavailablebudget.md#the-controller). What to do is decided by
//! `kinds::podunavailablebudget`. Runs with one of the gates of budgets.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use api::features::Feature;
use api::kinds::podunavailablebudget::{KIND, PodUnavailableBudget};
use cluster::resource::{BUDGETS, PODS};
use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use k8s_openapi::api::core::v1::ObjectReference;
use kinds::podunavailablebudget::plan::{self, Plan, Snapshot};
use kinds::podunavailablebudget::trigger;
use kinds::workload::object_version::ObjectVersion;
use kinds::workload::resolved::{Reference, ResolvedWorkload};
use kube::Client;
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use values::event::Event;

use crate::metrics::objects;
use crate::workload::builder::{Builder, Next, OUTDATED_RETRY, QueueSettings, Reconciler};
use crate::workload::carry_out::carry_out;
use crate::workload::finder;
use crate::workload::store::follow::Whole;
use crate::workload::store::{Change, Kept, Store};
use crate::workload::stores::Stores;
use crate::{Context, ReconcileError, now};
use cluster::event_sender::EventSender;

const NAME: &str = "podunavailablebudget-controller";
/// A budget is reconciled again after this time, whatever has happened.
const SAFETY_NET: Duration = Duration::from_secs(600);

impl Whole for PodUnavailableBudget {}

/// Reconciles budgets. Never returns.
pub async fn run(context: Context, stores: Arc<Stores>) {
    let settings = QueueSettings { name: NAME, workers: context.settings.podunavailablebudget_workers };
    Builder::new(&context, settings, "Protect", |event_sender| Controller {
        client: context.client.clone(),
        budgets: Store::default(),
        stores: stores.clone(),
        event_sender,
        context: context.clone(),
    })
    .watches(
        (BUDGETS, "podunavailablebudgets"),
        |all| &all.budgets,
        |_, change| {
            let due = trigger::of_budget(change.old.as_deref(), change.new.as_deref());
            change.states().next().map(|budget| (budget.key(), due))
        },
    )
    .shows(&objects::podunavailablebudget::TABLE, |all| all.budgets.all(), |budget| budget)
    .woken_by(stores.pods.subscribe(), Controller::of_pod)
    .woken_by_each(stores.finder.subscribe(), Controller::of_workload)
    .run()
    .await;
}

/// Asks for the Pods of all budgets that admission knows, so that they come with the first list of Pods.
pub(crate) fn ask_for_pods(context: &Context, stores: &Stores) {
    context.index.world().budget_names().iter().for_each(|key| stores.pods.want(KIND, key));
}

/// Whether budgets are in use.
pub(crate) fn is_on(context: &Context) -> bool {
    let gates = [Feature::PodUnavailableBudgetDeleteGate, Feature::PodUnavailableBudgetUpdateGate];
    gates.into_iter().any(|gate| context.settings.gates.enabled(gate))
}

struct Controller {
    client: Client,
    budgets: Store<PodUnavailableBudget>,
    stores: Arc<Stores>,
    event_sender: EventSender,
    context: Context,
}

/// The Pods of a budget, and what is behind them.
struct Members {
    pods: Vec<Arc<ObservedPod>>,
    workloads: Vec<plan::Workload>,
    /// Changes of some workload are not watched.
    unwatched: bool,
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = ReconcileError;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        // Pods keep the marks of other budgets: all have to be known.
        self.budgets.synced().await;
        let pods = &self.stores.pods;
        let alive = |budget: &Arc<PodUnavailableBudget>| budget.metadata.deletion_timestamp.is_none();
        if !self.budgets.get(key).is_some_and(|budget| alive(&budget)) {
            pods.leave(KIND, key);
            return Ok(Next::Done);
        }
        pods.want(KIND, key);
        pods.complete(&self.client, &key.0).await?;
        let Some(budget) = self.budgets.get(key).filter(alive) else { return Ok(Next::Done) };
        let mut members = match self.members(&budget).await {
            // Nobody knows how many Pods there are to be: what was written stays.
            Err(error @ ReconcileError::Unreadable(_)) => {
                let message = format!("Failed to calculate the number of expected pods: {}", error.message());
                let event = Event { warning: true, reason: "CalculateExpectedPodCountFailed", message };
                self.event_sender.record(budget.reference(&BUDGETS), event);
                return Err(error);
            }
            members => members?,
        };
        let mut others = self.of_namespace(&key.0);
        others.retain(|other| other.metadata.name != budget.metadata.name);
        let now = now().now;
        let ended = plan::ended(&self.snapshot(&budget, &others, &members), now);
        if !ended.is_empty() {
            if !self.read(&key.0, ended).await? {
                return Ok(Next::After(OUTDATED_RETRY));
            }
            members = self.members(&budget).await?;
        }
        let plan = plan::plan(&self.snapshot(&budget, &others, &members), now);
        let again = plan.requeue_after.into_iter().chain(members.unwatched.then_some(finder::MEMORY));
        let again = again.min().unwrap_or(SAFETY_NET);
        self.record(&budget, &members, &plan);
        let written = self.write(&budget, plan.status).await;
        self.mark(&members, &plan.marks).await?;
        Ok(Next::After(if written? { again } else { OUTDATED_RETRY }))
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        self.budgets.get(key).map(|budget| budget.reference(&BUDGETS))
    }
}

impl Controller {
    fn of_namespace(&self, namespace: &str) -> Vec<Arc<PodUnavailableBudget>> {
        self.budgets.group(&namespace.into())
    }

    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Key, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(namespace) = old.or(new).map(Kept::namespace) else { return Vec::new() };
        let budgets = self.of_namespace(namespace);
        if budgets.is_empty() {
            return Vec::new();
        }
        let Some(due) = trigger::of_pod(old, new, &self.context.settings.gates) else { return Vec::new() };
        let names: HashSet<_> = change.states().flat_map(|pod| trigger::budgets_of(pod, &budgets)).collect();
        names.into_iter().map(|name| ((namespace.to_owned(), name), due)).collect()
    }

    fn of_workload(&self, change: &Change<ResolvedWorkload>) -> Vec<(Key, Duration)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(namespace) = old.or(new).map(Kept::namespace) else { return Vec::new() };
        let names = trigger::of_workload(old, new, &self.of_namespace(namespace));
        names.into_iter().map(|name| ((namespace.to_owned(), name), Duration::ZERO)).collect()
    }

    fn snapshot<'a>(
        &'a self,
        budget: &'a PodUnavailableBudget,
        others: &'a [Arc<PodUnavailableBudget>],
        members: &'a Members,
    ) -> Snapshot<'a> {
        let gates = &self.context.settings.gates;
        Snapshot { budget, others, pods: &members.pods, workloads: &members.workloads, gates }
    }

    /// Reads Pods of which the watch should have reported something by now. False where it is so far behind that it
    /// still shows one that is gone: from what is known nothing can be counted.
    async fn read(&self, namespace: &str, names: Vec<String>) -> Result<bool, ReconcileError> {
        let pods = &self.stores.pods;
        for name in names {
            let path = PODS.namespaced(namespace).name(&name);
            match write::get(&self.client, &path).await? {
                Some(text) => drop(pods.written(&text)?),
                None if pods.get(&(namespace.to_owned(), name)).is_some() => return Ok(false),
                None => {}
            }
        }
        Ok(true)
    }

    /// The Pods of a budget and the workloads behind them.
    async fn members(&self, budget: &PodUnavailableBudget) -> Result<Members, ReconcileError> {
        let (finder, namespace) = (&self.stores.finder, &budget.metadata.namespace);
        let mut found: Vec<Arc<ResolvedWorkload>> = Vec::new();
        let pods = match &budget.spec.target_ref {
            Some(target) => {
                let reference = Reference {
                    api_version: &target.api_version,
                    kind: &target.kind,
                    name: &target.name,
                    uid: None,
                };
                match finder.find(&self.client, namespace, reference).await? {
                    Some(workload) => {
                        if let Some(problem) = &workload.hidden {
                            return Err(ReconcileError::Unreadable(problem.clone()));
                        }
                        let pods = finder.pods(&self.stores.pods, &workload).await?;
                        found.push(workload);
                        pods
                    }
                    None => Vec::new(),
                }
            }
            None => {
                let pods = trigger::selected(budget, self.stores.pods.of_namespace(namespace));
                let controllers =
                    pods.iter().filter(|pod| pod.is_active()).filter_map(|pod| pod.controller());
                let mut seen = HashSet::new();
                for controller in controllers.filter(|owner| seen.insert(owner.uid.as_str())) {
                    found.extend(finder.behind(&self.client, namespace, controller).await?);
                }
                pods
            }
        };
        let unwatched = budget.spec.target_ref.is_some() && found.is_empty()
            || found.iter().any(|workload| !finder.watches(workload));
        let workloads = found.iter().map(|workload| plan::Workload {
            uid: workload.metadata.uid.to_string(),
            replicas: workload.replicas,
            is_deleted: workload.metadata.deletion_timestamp.is_some(),
        });
        Ok(Members { pods, workloads: workloads.collect(), unwatched })
    }

    /// Writes the status; false where the budget was in another state.
    async fn write(
        &self,
        budget: &PodUnavailableBudget,
        status: Option<String>,
    ) -> Result<bool, ReconcileError> {
        let Some(patch) = status else { return Ok(true) };
        let path = BUDGETS.namespaced(budget.namespace()).name(budget.name()).subresource("status");
        self.budgets.take_in(KIND, write::patch(&self.client, &path, PatchKind::Merge, patch).await)
    }

    /// Marks Pods. One that can't be marked stops no other.
    async fn mark(
        &self,
        members: &Members,
        marks: &[(ObjectVersion, PodWrite)],
    ) -> Result<(), ReconcileError> {
        let mut outcome = Ok(());
        for (seen, write) in marks {
            let pod = members.pods.iter().find(|pod| *pod.metadata.uid == *seen.uid);
            let Some(pod) = pod else { continue };
            let marked = carry_out(&self.client, &self.stores.pods, pod, std::slice::from_ref(write)).await;
            if let Err(error) = marked {
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }

    fn record(&self, budget: &PodUnavailableBudget, members: &Members, plan: &Plan) {
        for event in &plan.events {
            self.event_sender.record(budget.reference(&BUDGETS), event.clone());
        }
        for (seen, event) in &plan.pod_events {
            if let Some(pod) = members.pods.iter().find(|pod| *pod.metadata.uid == *seen.uid) {
                self.event_sender.record(pod.reference(&PODS), event.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
