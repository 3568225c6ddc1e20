//! Asks the budget of a Pod before a controller takes it out of service, and wakes who waits for a budget
//! (docs/behaviour/podunavailablebudget.md#changes-by-controllers). The webhook would ask too late: readiness is taken
//! away by a write of the status, which it does not see.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission::pod_validation::{BudgetClaim, beforehand};
use api::Raw;
use api::features::FeatureGates;
use cluster::reservation::Reservations;
use cluster::resource::BUDGETS;
use cluster::watched::Key;
use informers::Index;
use kinds::podunavailablebudget::reserve::{Answer, Foreseen, Rules};
use kinds::podunavailablebudget::terms::Operation;
use kube::Client;
use pod::observed::ObservedPod;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::{ReconcileError, now};

/// Longest time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The budgets as admission knows them, where their units are taken, and which keys of a controller wait for them.
pub(crate) struct Budgets<K> {
    index: Arc<Index>,
    gates: FeatureGates,
    rules: Rules,
    reservations: Reservations<Rules>,
    /// For all that a key waits for, the first claim that was refused.
    waiting: Mutex<BTreeMap<K, BTreeMap<Want, BudgetClaim>>>,
    added: Notify,
}

/// A budget, and what it is asked for: it may protect other operations than this one.
type Want = (Key, Operation);

/// What budgets had nothing left for in this reconcile. What is free a moment later is for the Pods that were refused,
/// not for those behind them in the update order.
#[derive(Default)]
pub(crate) struct Spent(Mutex<BTreeSet<Want>>);

/// A budget that has nothing left.
#[derive(Clone, Debug)]
pub(crate) struct Exhausted {
    budget: String,
    operation: Operation,
    /// What the watch had shown of it. What refused may be newer.
    watched: Raw,
}

impl Exhausted {
    fn of(claim: &BudgetClaim) -> Self {
        Self { budget: claim.name.clone(), operation: claim.claim.operation, watched: claim.watched.clone() }
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PodUnavailableBudget {} has nothing left", self.budget)
    }
}

impl Spent {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Want>> {
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
            return Ok(Some(Exhausted::of(&claim)));
        }
        let (path, deadline) =
            (BUDGETS.namespaced(namespace(&claim)).name(&claim.name), Instant::now() + TIMEOUT);
        let answer =
            self.reservations.claim(&path, Some(claim.watched.clone()), claim.claim.clone(), deadline).await;
        match answer.map_err(|error| ReconcileError::Action(error.to_string()))? {
            None | Some(Answer::Granted) => Ok(None),
            Some(Answer::Refused(_)) => {
                self.wait(key, &claim, spent);
                Ok(Some(Exhausted::of(&claim)))
            }
        }
    }

    /// The budget that has nothing left for a Pod that was refused, as far as is known; then `key` waits for it.
    pub(crate) fn holding(
        &self,
        key: &K,
        pod: &ObservedPod,
        refused: &Exhausted,
        spent: &Spent,
    ) -> Option<Exhausted> {
        let claim = self.claim(pod, refused.operation).ok()??;
        if self.may_be_granted(&claim, &refused.watched) {
            return None;
        }
        self.wait(key, &claim, spent);
        Some(Exhausted::of(&claim))
    }

    /// Whether a Pod may pass that was refused.
    pub(crate) fn may_pass(&self, pod: &ObservedPod, refused: &Exhausted) -> bool {
        match self.claim(pod, refused.operation) {
            Ok(Some(claim)) => self.may_be_granted(&claim, &refused.watched),
            _ => true,
        }
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
        let may_pass = |refused: &BudgetClaim| self.may_pass(&refused.pod, &Exhausted::of(refused));
        let may_go_on = |claims: &BTreeMap<Want, BudgetClaim>| claims.values().any(may_pass);
        let woken: Vec<K> =
            waiting.iter().filter(|(_, claims)| may_go_on(claims)).map(|(key, _)| key.clone()).collect();
        woken.iter().for_each(|key| drop(waiting.remove(key)));
        woken
    }

    /// Whether a claim may be granted that was refused when the watch had shown `then`, which may be older than what
    /// refused it.
    fn may_be_granted(&self, claim: &BudgetClaim, then: &Raw) -> bool {
        claim.watched != *then && self.foresee(claim) != Foreseen::Refused
    }

    fn foresee(&self, claim: &BudgetClaim) -> Foreseen {
        self.rules.foresee(&claim.watched, &claim.claim, now().now)
    }

    fn claim(&self, pod: &ObservedPod, operation: Operation) -> Result<Option<BudgetClaim>, ReconcileError> {
        let claim = beforehand(pod, operation, &self.index.world(), &self.gates);
        claim.map_err(|denial| ReconcileError::Action(denial.message))
    }

    /// Whether the claim would be refused on what the watch has shown, or would take what others wait for.
    fn refuse(&self, key: &K, claim: &BudgetClaim, spent: &Spent) -> bool {
        match self.foresee(claim) {
            Foreseen::Refused => {
                self.wait(key, claim, spent);
                true
            }
            Foreseen::Recorded => spent.lock().contains(&want(claim)),
            Foreseen::Free => false,
        }
    }

    fn wait(&self, key: &K, claim: &BudgetClaim, spent: &Spent) {
        let want = want(claim);
        spent.lock().insert(want.clone());
        self.waiting().entry(key.clone()).or_default().entry(want).or_insert_with(|| claim.clone());
        // The budget may have changed since it was read.
        self.added.notify_one();
    }

    // Held for single operations only, never over an await.
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<K, BTreeMap<Want, BudgetClaim>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn namespace(claim: &BudgetClaim) -> &str {
    &claim.pod.metadata.namespace
}

fn want(claim: &BudgetClaim) -> Want {
    ((namespace(claim).to_owned(), claim.name.clone()), claim.claim.operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use admission::world::{Watched, World};
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

    fn protecting_deletions(version: u32, left: i32) -> Value {
        let mut budget = budget(version, left);
        budget["spec"]["protectOperations"] = json!(["DELETE"]);
        budget
    }

    fn world(budget: &Value) -> World {
        let mut world = World::new("kruise-system");
        world.apply(Watched::PodUnavailableBudget, &budget.to_string()).unwrap();
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
            Self::of(&budget(1, watched), budget(2, live))
        }

        fn of(watched: &Value, live: Value) -> Self {
            let (client, requests) = fake::api_server(move |request| match request.method {
                "GET" => (200, live.to_string()),
                _ => (409, fake::status(409)),
            });
            let index = Arc::new(Index::fixed(world(watched)));
            let gates = FeatureGates::parse("PodUnavailableBudgetUpdateGate=true", "").unwrap();
            let budgets = Arc::new(Budgets::new(client, index.clone(), gates));
            let (sender, keys) = unbounded_channel();
            let waking = budgets.clone();
            tokio::spawn(async move { waking.wake(sender).await });
            Self { budgets, index, requests, keys }
        }

        async fn bear(&self) -> Option<Exhausted> {
            self.ask(&pod(), Operation::Delete, &Spent::default()).await
        }

        async fn ask(&self, pod: &ObservedPod, operation: Operation, spent: &Spent) -> Option<Exhausted> {
            self.budgets.bear(&7, pod, operation, spent).await.unwrap()
        }

        /// Who is woken by this state.
        async fn woken(&mut self, version: u32, left: i32) -> Option<u8> {
            self.woken_by(&budget(version, left)).await
        }

        async fn woken_by(&mut self, budget: &Value) -> Option<u8> {
            self.index.publish(world(budget));
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
    async fn what_takes_no_unit_passes_whoever_was_refused() {
        let state = |version, left| {
            let mut state = protecting_deletions(version, left);
            let now = now().now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            state["status"]["disruptedPods"] = json!({"web-1": now});
            state
        };
        let mut recorded = pod();
        (recorded.metadata.name, recorded.metadata.uid) = ("web-1".into(), "v".into());
        let (delete, update, spent) = (Operation::Delete, Operation::Update, Spent::default());
        let mut site = Site::of(&state(1, 0), state(1, 0));
        assert!(site.ask(&pod(), delete, &spent).await.is_some());
        assert!(site.ask(&pod(), update, &spent).await.is_none(), "it is not protected");
        assert!(site.ask(&recorded, delete, &spent).await.is_none(), "it has its unit");
        assert_eq!(site.woken_by(&state(2, 1)).await, Some(7));
        assert!(site.ask(&pod(), delete, &spent).await.is_some(), "what is free is for the next reconcile");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_waited_for_is_kept_for_each_operation() {
        let (mut site, spent) = (Site::open(0, 0), Spent::default());
        for operation in [Operation::Delete, Operation::Update] {
            assert!(site.ask(&pod(), operation, &spent).await.is_some());
        }
        assert_eq!(site.woken_by(&protecting_deletions(2, 0)).await, Some(7), "the update passes");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_when_the_budget_goes_and_not_when_it_is_forgotten() {
        let mut site = Site::open(0, 0);
        assert!(site.bear().await.is_some());
        site.index.publish(World::new("kruise-system"));
        assert_eq!(site.keys.recv().await, Some(7));
        site.index.publish(world(&budget(1, 0)));
        assert!(site.bear().await.is_some());
        site.budgets.forget(&7);
        assert_eq!(site.woken(2, 1).await, None);
    }
}
