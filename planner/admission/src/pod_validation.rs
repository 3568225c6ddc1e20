//! The Pod validating webhook, decided: the steps of `/validate-pod` in their fixed order
//! (docs/behaviour/podunavailablebudget.md#the-pod-validating-webhook).
//!
//! A step reads the request and says what it has to take from which object. What is taken is decided on the state
//! of that object by the rules of its kind ([`values::reservation`]). A step whose claim is refused ends the
//! review: the steps behind it take nothing for a Pod that stays.

use api::Raw;
use api::features::{Feature, FeatureGates};

use super::world::World;
use kinds::podunavailablebudget;
use kinds::podunavailablebudget::budget::Budget;
use kinds::podunavailablebudget::check::{budget_of, check};
use kinds::podunavailablebudget::reserve::Claim;
use kinds::podunavailablebudget::terms::Operation;
use kinds::workload::namespaced::Entry;
use kinds::workloadspread::spread::Spread;
use kinds::workloadspread::{deletion, slots};
use pod::disruption::{Disruption, PodRequest};
use pod::observed::ObservedPod;
use values::verdict::Denial;

/// What a review comes to before anything is taken.
#[derive(Clone, Debug)]
pub enum Assessment {
    /// The request can't be decided.
    Denied(Denial),
    /// The request does not carry the Pod. Read it and ask again with it; one that does not exist may be evicted.
    NeedsPod,
    /// What has to be taken before the request may pass.
    Claims(Box<Claims>),
}

/// What the steps have to take, in their order.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// A unit of a PodUnavailableBudget.
    pub budget: Option<BudgetClaim>,
    /// The slot in a subset that the Pod gives back.
    pub slot: Option<(Spread, slots::Claim)>,
}

/// A claim on a PodUnavailableBudget of the Pod's namespace.
#[derive(Clone, Debug)]
pub struct BudgetClaim {
    /// The budget's name.
    pub name: String,
    /// The budget as the watch has shown it.
    pub watched: Raw,
    /// What is claimed.
    pub claim: Claim,
    /// The Pod, for those who report a refusal.
    pub pod: Box<ObservedPod>,
}

impl BudgetClaim {
    fn new(budget: &Budget, claim: Claim, pod: Box<ObservedPod>) -> Self {
        Self { name: budget.name().to_owned(), watched: budget.object.clone(), claim, pod }
    }
}

/// What a controller has to take before it makes this Pod unavailable. The Pod is recorded then, so that the request
/// itself takes nothing (docs/behaviour/podunavailablebudget.md#changes-by-controllers).
///
/// # Errors
/// What can't be decided.
pub fn beforehand(
    pod: &ObservedPod,
    operation: Operation,
    world: &World,
    gates: &FeatureGates,
) -> Result<Option<BudgetClaim>, Denial> {
    let budgets = world.budgets().of(&pod.metadata.namespace);
    if budgets.is_empty() || !gates.enabled(operation.gate()) {
        return Ok(None);
    }
    let budget = budget_of(pod, budgets, gates)?;
    Ok(budget.map(|budget| {
        let claim = Claim { by_controller: true, ..Claim::new(pod, operation, false) };
        BudgetClaim::new(budget, claim, Box::new(pod.clone()))
    }))
}

/// Looks at a request. `evicted` is the Pod of an eviction, once it has been read.
pub fn assess(
    request: &PodRequest<'_>,
    evicted: Option<&ObservedPod>,
    world: &World,
    gates: &FeatureGates,
) -> Assessment {
    let Some(disruption) = request.disruption() else { return Assessment::Claims(Box::default()) };
    let budgets = world.budgets().of(request.namespace);
    let budget = match check(disruption, request.is_dry_run(), evicted, budgets, gates) {
        Err(denial) => return Assessment::Denied(denial),
        Ok(podunavailablebudget::check::Assessment::NeedsPod) => return Assessment::NeedsPod,
        Ok(podunavailablebudget::check::Assessment::Allowed) => None,
        Ok(podunavailablebudget::check::Assessment::Claims { budget, claim, pod }) => {
            Some(BudgetClaim::new(budget, claim, pod))
        }
    };
    let slot = match slot(disruption, request, evicted, world, gates) {
        SlotClaim::NeedsPod => return Assessment::NeedsPod,
        SlotClaim::Known(slot) => slot,
    };
    Assessment::Claims(Box::new(Claims { budget, slot }))
}

enum SlotClaim {
    NeedsPod,
    Known(Option<(Spread, slots::Claim)>),
}

/// The slot that the Pod gives back to a WorkloadSpread, if it has one. A Pod that can't be read has none.
fn slot(
    disruption: Disruption<'_>,
    request: &PodRequest<'_>,
    evicted: Option<&ObservedPod>,
    world: &World,
    gates: &FeatureGates,
) -> SlotClaim {
    let spreads = world.spreads();
    let is_off = !gates.enabled(Feature::WorkloadSpread) || spreads.of(request.namespace).is_empty();
    if is_off || request.is_dry_run() {
        return SlotClaim::Known(None);
    }
    let claim =
        |pod: &ObservedPod| deletion::claim(pod, spreads).map(|(spread, claim)| (spread.clone(), claim));
    match (disruption, evicted) {
        (Disruption::Delete { pod }, _) => {
            SlotClaim::Known(ObservedPod::read(pod).ok().and_then(|pod| claim(&pod)))
        }
        (Disruption::Evict, Some(pod)) => SlotClaim::Known(claim(pod)),
        (Disruption::Evict, None) => SlotClaim::NeedsPod,
        (Disruption::Update { .. }, _) => SlotClaim::Known(None),
    }
}
