//! The Pod validating webhook, decided: the steps of `/validate-pod` in their fixed order
//! (docs/behaviour/podunavailablebudget.md#the-pod-validating-webhook).
//!
//! A step looks at the request and says what it has to take from which object. What is taken is decided on the state
//! of that object by the rules of its kind ([`crate::workload::reservation`]). A step whose claim is refused ends the
//! review: the steps behind it take nothing for a Pod that stays.

use api::Raw;
use api::features::FeatureGates;

use super::world::World;
use crate::kinds::podunavailablebudget;
use crate::kinds::podunavailablebudget::check::check;
use crate::kinds::podunavailablebudget::reserve::Claim;
use crate::pod::disruption::PodRequest;
use crate::pod::observed::ObservedPod;
use crate::text::verdict::Denial;
use crate::workload::namespaced::Entry;

/// What a review comes to before anything is taken.
#[derive(Clone, Debug)]
pub enum Assessment {
    /// The request can't be decided.
    Denied(Denial),
    /// The request does not carry the Pod. Read it and ask again with it; one that does not exist may be evicted.
    NeedsPod,
    /// What has to be taken before the request may pass.
    Claims(Claims),
}

/// What the steps have to take, in their order.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// A unit of a PodUnavailableBudget.
    pub budget: Option<BudgetClaim>,
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
    /// The Pod, for those who tell of a refusal.
    pub pod: Box<ObservedPod>,
}

/// Looks at a request. `evicted` is the Pod of an eviction, once it has been read.
pub fn assess(
    request: &PodRequest<'_>,
    evicted: Option<&ObservedPod>,
    world: &World,
    gates: &FeatureGates,
) -> Assessment {
    let Some(disruption) = request.disruption() else { return Assessment::Claims(Claims::default()) };
    let budgets = world.budgets().of(request.namespace);
    let budget = match check(disruption, request.is_dry_run(), evicted, budgets, gates) {
        Err(denial) => return Assessment::Denied(denial),
        Ok(podunavailablebudget::check::Assessment::NeedsPod) => return Assessment::NeedsPod,
        Ok(podunavailablebudget::check::Assessment::Allowed) => None,
        Ok(podunavailablebudget::check::Assessment::Claims { budget, claim, pod }) => {
            Some(BudgetClaim { name: budget.name().to_owned(), watched: budget.object.clone(), claim, pod })
        }
    };
    Assessment::Claims(Claims { budget })
}
