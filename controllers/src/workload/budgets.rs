//! Asks the budget of a Pod before its workload takes it out of service to change it
//! (docs/behaviour/podunavailablebudget.md#changes-by-workloads). The webhook would ask too late: readiness is
//! taken away by a write of the status, which it does not see.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::features::FeatureGates;
use cluster::Index;
use cluster::reservation::Reservations;
use cluster::resource::BUDGETS;
use planner::kinds::podunavailablebudget::reserve::{Answer, Rules};
use planner::pod::observed::ObservedPod;
use planner::server::pod_validation::{BudgetClaim, before_update};
use tokio::time::Instant;

use crate::{Context, ReconcileError};

/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The budgets as admission knows them, and where their units are taken.
pub(super) struct Budgets {
    index: Arc<Index>,
    gates: FeatureGates,
    reservations: Reservations<Rules>,
}

/// Budgets that had nothing left in this reconcile. What is free a moment later is for the Pods that were refused, not
/// for those behind them in the update order.
#[derive(Default)]
pub(super) struct Spent(Mutex<BTreeSet<String>>);

impl Spent {
    fn lock(&self) -> impl std::ops::DerefMut<Target = BTreeSet<String>> + '_ {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budgets {
    pub(super) fn new(context: &Context) -> Self {
        let gates = context.settings.gates.clone();
        let reservations = Reservations::new(Some(context.client.clone()), Rules::new(&gates));
        Self { index: context.index.clone(), gates, reservations }
    }

    /// Whether the Pod may be made unavailable now. If so, its unit is taken.
    ///
    /// # Errors
    /// It can't be decided.
    pub(super) async fn bear(&self, pod: &ObservedPod, spent: &Spent) -> Result<bool, ReconcileError> {
        let undecided = |problem: String| ReconcileError::Action(problem);
        let claim = before_update(pod, &self.index.world(), &self.gates);
        let claim = claim.map_err(|denial| undecided(denial.message))?;
        let Some(BudgetClaim { name, watched, claim, .. }) = claim else { return Ok(true) };
        if spent.lock().contains(&name) {
            return Ok(false);
        }
        let path = BUDGETS.namespaced(&pod.metadata.namespace).name(&name);
        let deadline = Instant::now() + PATIENCE;
        let answer = self.reservations.claim(&path, Some(watched), claim, deadline).await;
        match answer.map_err(|error| undecided(error.to_string()))? {
            None | Some(Answer::Granted) => Ok(true),
            Some(Answer::Refused(_)) => {
                spent.lock().insert(name);
                Ok(false)
            }
        }
    }
}
