//! Asks the budget of a Pod before a controller takes it out of service, and wakes who waits for a budget
//! (docs/behaviour/podunavailablebudget.md#changes-by-controllers). The webhook would ask too late: readiness is taken
//! away by a write of the status, which it does not see.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::features::FeatureGates;
use cluster::Index;
use cluster::reservation::Reservations;
use cluster::resource::BUDGETS;
use cluster::watched::Key;
use kube::Client;
use planner::kinds::podunavailablebudget::reserve::{Answer, Rules};
use planner::kinds::podunavailablebudget::terms::Operation;
use planner::pod::observed::ObservedPod;
use planner::server::pod_validation::{BudgetClaim, beforehand};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::{ReconcileError, now};

/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The budgets as admission knows them, where their units are taken, and which keys of a controller wait for them.
pub(crate) struct Budgets<K> {
    index: Arc<Index>,
    gates: FeatureGates,
    rules: Rules,
    reservations: Reservations<Rules>,
    /// For each budget that a key waits for, a claim that was refused.
    waiting: Mutex<BTreeMap<K, HashMap<Key, BudgetClaim>>>,
    added: Notify,
}

/// Budgets that had nothing left in this reconcile. What is free a moment later is for the Pods that were refused, not
/// for those behind them in the update order.
#[derive(Default)]
pub(crate) struct Spent(Mutex<BTreeSet<Key>>);

/// The name of a budget that has nothing left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exhausted(String);

impl fmt::Display for Exhausted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PodUnavailableBudget {} has nothing left", self.0)
    }
}

impl Spent {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Ord> Budgets<K> {
    pub(crate) fn new(client: Client, index: Arc<Index>, gates: FeatureGates) -> Self {
        let rules = Rules::new(&gates);
        let reservations = Reservations::new(Some(client), rules);
        Self { index, gates, rules, reservations, waiting: Mutex::default(), added: Notify::new() }
    }

    /// Takes the unit that it costs to make the Pod unavailable. Where its budget has nothing left, which is given then,
    /// `key` waits for that.
    ///
    /// # Errors
    /// It can't be decided.
    pub(crate) async fn bear(
        &self,
        key: &K,
        pod: &ObservedPod,
        operation: Operation,
        spent: &Spent,
    ) -> Result<Option<Exhausted>, ReconcileError> {
        let Some(claim) = self.claim(pod, operation)? else { return Ok(None) };
        if self.refuse(key, &claim, spent) {
            return Ok(Some(Exhausted(claim.name)));
        }
        let (path, deadline) =
            (BUDGETS.namespaced(namespace(&claim)).name(&claim.name), Instant::now() + PATIENCE);
        let answer =
            self.reservations.claim(&path, Some(claim.watched.clone()), claim.claim.clone(), deadline).await;
        match answer.map_err(|error| ReconcileError::Action(error.to_string()))? {
            None | Some(Answer::Granted) => Ok(None),
            Some(Answer::Refused(_)) => {
                let budget = claim.name.clone();
                self.wait(key, claim, spent);
                Ok(Some(Exhausted(budget)))
            }
        }
    }

    /// The budget that has nothing left for the Pod as far as is known; then `key` waits for it.
    pub(crate) fn holding(
        &self,
        key: &K,
        pod: &ObservedPod,
        operation: Operation,
        spent: &Spent,
    ) -> Option<Exhausted> {
        let claim = self.claim(pod, operation).ok()??;
        self.refuse(key, &claim, spent).then_some(Exhausted(claim.name))
    }

    /// `key` waits no more.
    pub(crate) fn forget(&self, key: &K) {
        self.waiting().remove(key);
    }

    /// Sends the keys that wait, as soon as a budget may have something for them. Ends with the queue.
    pub(crate) async fn wake(&self, keys: UnboundedSender<K>) {
        let mut published = self.index.published();
        loop {
            if self.woken().into_iter().any(|key| keys.send(key).is_err()) {
                return;
            }
            tokio::select! {
                changed = published.changed() => if changed.is_err() { return },
                () = self.added.notified() => {}
            }
        }
    }

    fn woken(&self) -> Vec<K> {
        let mut waiting = self.waiting();
        let may_pass = |claims: &HashMap<Key, BudgetClaim>| claims.values().any(|claim| self.may_pass(claim));
        let woken: Vec<K> =
            waiting.iter().filter(|(_, claims)| may_pass(claims)).map(|(key, _)| key.clone()).collect();
        woken.iter().for_each(|key| drop(waiting.remove(key)));
        woken
    }

    /// Whether a claim may be granted that was refused. What it was refused on may be older than what refused it.
    fn may_pass(&self, refused: &BudgetClaim) -> bool {
        match self.claim(&refused.pod, refused.claim.operation) {
            Ok(Some(claim)) => {
                claim.watched != refused.watched
                    && !self.rules.refuse(&claim.watched, &claim.claim, now().now)
            }
            _ => true,
        }
    }

    fn claim(&self, pod: &ObservedPod, operation: Operation) -> Result<Option<BudgetClaim>, ReconcileError> {
        let claim = beforehand(pod, operation, &self.index.world(), &self.gates);
        claim.map_err(|denial| ReconcileError::Action(denial.message))
    }

    /// Whether the claim would be refused on what the watch has shown.
    fn refuse(&self, key: &K, claim: &BudgetClaim, spent: &Spent) -> bool {
        let is_spent = spent.lock().contains(&(namespace(claim).to_owned(), claim.name.clone()));
        if !is_spent && self.rules.refuse(&claim.watched, &claim.claim, now().now) {
            self.wait(key, claim.clone(), spent);
            return true;
        }
        is_spent
    }

    fn wait(&self, key: &K, claim: BudgetClaim, spent: &Spent) {
        let budget = (namespace(&claim).to_owned(), claim.name.clone());
        spent.lock().insert(budget.clone());
        self.waiting().entry(key.clone()).or_default().insert(budget, claim);
        // The budget may have changed since it was looked at.
        self.added.notify_one();
    }

    // Held for single operations only, never over an await.
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<K, HashMap<Key, BudgetClaim>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn namespace(claim: &BudgetClaim) -> &str {
    &claim.pod.metadata.namespace
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use planner::server::world::{Watched, World};
    use serde_json::{Value, json};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::task::yield_now;

    fn budget(version: u32, left: i32) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "b", "generation": 1,
                "resourceVersion": version.to_string()},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
            "status": {"observedGeneration": 1, "unavailableAllowed": left, "currentAvailable": 2 + left,
                "desiredAvailable": 2, "totalReplicas": 3},
        })
    }

    fn world(version: u32, left: i32) -> World {
        let mut world = World::new("kruise-system");
        world.apply(Watched::PodUnavailableBudget, &budget(version, left).to_string()).unwrap();
        world
    }

    fn pod() -> ObservedPod {
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "web-0", "uid": "u", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        ObservedPod::read(&pod.to_string()).unwrap()
    }

    struct Site {
        budgets: Arc<Budgets<u8>>,
        index: Arc<Index>,
        requests: fake::Requests,
        keys: UnboundedReceiver<u8>,
    }

    impl Site {
        /// One unit is left as the watch has it, or none; and on the API server in each state after it.
        fn open(watched: i32, live: i32) -> Self {
            let (client, requests) = fake::api_server(move |request| match request.method {
                "GET" => (200, budget(2, live).to_string()),
                _ => (409, fake::status(409)),
            });
            let index = Arc::new(Index::fixed(world(1, watched)));
            let budgets = Arc::new(Budgets::new(client, index.clone(), FeatureGates::default()));
            let (sender, keys) = unbounded_channel();
            let waking = budgets.clone();
            tokio::spawn(async move { waking.wake(sender).await });
            Self { budgets, index, requests, keys }
        }

        async fn bear(&self) -> Option<Exhausted> {
            self.budgets.bear(&7, &pod(), Operation::Delete, &Spent::default()).await.unwrap()
        }

        /// Who is woken by this state.
        async fn woken(&mut self, version: u32, left: i32) -> Option<u8> {
            self.index.publish(world(version, left));
            for _ in 0..9 {
                yield_now().await;
            }
            self.keys.try_recv().ok()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_budget_asks_nothing_and_is_woken_once_when_it_has_something() {
        let mut site = Site::open(0, 0);
        for _ in 0..20 {
            assert_eq!(site.bear().await.unwrap().to_string(), "PodUnavailableBudget web has nothing left");
        }
        assert_eq!((site.woken(2, 0).await, site.woken(3, 1).await), (None, Some(7)));
        assert_eq!(site.woken(4, 1).await, None);
        assert!(site.requests.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_on_a_newer_state_than_is_known_waits_for_a_change_after_it() {
        let mut site = Site::open(1, 0);
        assert!(site.bear().await.is_some());
        let asked = site.requests.lock().unwrap().len();
        assert_eq!((site.woken(1, 1).await, site.woken(2, 0).await), (None, None));
        assert_eq!(site.requests.lock().unwrap().len(), asked);
        assert_eq!(site.woken(3, 1).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_when_the_budget_goes_and_not_when_it_is_forgotten() {
        let mut site = Site::open(0, 0);
        assert!(site.bear().await.is_some());
        site.index.publish(World::new("kruise-system"));
        assert_eq!(site.keys.recv().await, Some(7));
        site.index.publish(world(1, 0));
        assert!(site.bear().await.is_some());
        site.budgets.forget(&7);
        assert_eq!(site.woken(2, 1).await, None);
    }
}
