//! Whether a request about a Pod needs a unit of its budget
//! (docs/behaviour/podunavailablebudget.md#what-takes-a-unit).

use std::borrow::Cow;

use api::annotations::PUB_NO_PROTECT;
use api::features::FeatureGates;

use super::available::Availability;
use super::budget::{Budget, protecting};
use super::change;
use super::reserve::Claim;
use super::terms::{Operation, UnhealthyPods};
use pod::disruption::Disruption;
use pod::observed::ObservedPod;
use values::verdict::{Denial, refused};

/// The result of checking a request.
#[derive(Debug)]
pub enum Assessment<'b> {
    /// No unit is needed.
    Allowed,
    /// The Pod has to be read first.
    NeedsPod,
    /// A unit of this budget is needed for this Pod.
    Claims {
        /// The budget that the Pod is under.
        budget: &'b Budget,
        /// What is wanted of the budget.
        claim: Claim,
        /// The Pod as it is before the request.
        pod: Box<ObservedPod>,
    },
}

/// Looks at a request. `budgets` are those of the Pod's namespace in their order; `evicted` is the Pod of an eviction,
/// once it has been read.
///
/// # Errors
/// What can't be decided.
pub fn check<'b>(
    disruption: Disruption<'_>,
    dry_run: bool,
    evicted: Option<&ObservedPod>,
    budgets: &'b [Budget],
    gates: &FeatureGates,
) -> Result<Assessment<'b>, Denial> {
    let gate = match disruption {
        Disruption::Update { .. } => Operation::Update.gate(),
        Disruption::Delete { .. } | Disruption::Evict => Operation::Delete.gate(),
    };
    // In a namespace without budgets, as most are, not even the Pod is read.
    if budgets.is_empty() || !gates.enabled(gate) {
        return Ok(Assessment::Allowed);
    }
    let (operation, pod) = match disruption {
        Disruption::Evict => match evicted {
            Some(pod) => (Operation::Evict, Some(Cow::Borrowed(pod))),
            None => return Ok(Assessment::NeedsPod),
        },
        Disruption::Delete { pod } => (Operation::Delete, read_protected(pod, budgets)?),
        Disruption::Update { old, new } => match change::operation(old, new)? {
            Some(operation) => (operation, read_protected(old, budgets)?),
            None => return Ok(Assessment::Allowed),
        },
    };
    let Some(pod) = pod else { return Ok(Assessment::Allowed) };
    let budget = budget_of(&pod, budgets, gates)?;
    Ok(budget.map_or(Assessment::Allowed, |budget| {
        let claim = Claim::new(&pod, operation, dry_run);
        Assessment::Claims { budget, claim, pod: Box::new(pod.into_owned()) }
    }))
}

/// The budget that has to be asked before this Pod is disturbed; `None` where it may be at once.
///
/// # Errors
/// A budget whose `spec.ignoredPodSelector` can't be used.
pub fn budget_of<'b>(
    pod: &ObservedPod,
    budgets: &'b [Budget],
    gates: &FeatureGates,
) -> Result<Option<&'b Budget>, Denial> {
    let availability = Availability::new(gates);
    let is_available = availability.holds_for(pod);
    if passes(pod) || !is_available && !availability.pod_fails(pod) {
        return Ok(None);
    }
    let holds = |budget: &&Budget| is_available || budget.scope.unhealthy == UnhealthyPods::Protect;
    let Some(budget) = protecting(budgets, pod).filter(holds) else { return Ok(None) };
    match budget.scope.ignored.matches(&pod.metadata.labels) {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some(budget)),
        Err(error) => Err(refused(error)),
    }
}

/// Whether an annotation lets the Pod pass.
pub(crate) fn passes(pod: &ObservedPod) -> bool {
    matches!(pod.annotation(PUB_NO_PROTECT), Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// Reads a Pod that some budget protects; of others only what shows that.
fn read_protected(pod: &str, budgets: &[Budget]) -> Result<Option<Cow<'static, ObservedPod>>, Denial> {
    let head = ObservedPod::read_metadata(pod).map_err(refused)?;
    let pod = protecting(budgets, &head).map(|_| ObservedPod::read(pod)).transpose();
    pod.map(|pod| pod.map(Cow::Owned)).map_err(refused)
}
