//! WorkloadSpreads: their own webhook, and what admission of Pods asks the cluster for on their behalf.

use admission::pod_review::Review;
use admission::world::Watched;
use api::features::Feature;
use api::meta::OwnerReference;
use cluster::reservation::ReservationError;
use cluster::resource::SPREADS;
use informers::index::CacheState;
use kinds::workload::resolved::ResolvedWorkload;
use kinds::workloadspread::custom;
use kinds::workloadspread::matching::Owners;
use kinds::workloadspread::slots::{Answer, Claim};
use kinds::workloadspread::spread::Spread;
use kinds::workloadspread::step::{Choice, Placement, SlotRequest};
use kinds::workloadspread::validation::{Context, review, target, trials};
use serde_json::Value;
use tracing::warn;
use values::verdict::{Denial, Verdict};

use super::resource::Write;
use super::templates::judged;
use crate::admission::Admission;
use crate::deadline::Deadline;

/// Checks a WorkloadSpread against itself, its former self, the others of its namespace and its target.
pub(super) async fn validate(write: &Write<'_>) -> Verdict {
    let admission = write.admission;
    if let Some(answer) = write.without_gate(&[Feature::WorkloadSpread]) {
        return answer;
    }
    if let Some(refused) =
        [Watched::WorkloadSpread, Watched::ConfigMap].into_iter().find_map(|kind| admission.not_loaded(kind))
    {
        return refused;
    }
    let workload = match target(write.object) {
        Ok(spread) => read_template(write, &spread).await,
        Err(denial) => return denial.into(),
    };
    let workload = match workload {
        Ok(workload) => workload,
        Err(refused) => return refused,
    };
    let verdict = {
        let world = admission.index.world();
        let context = Context {
            others: world.spreads().of(write.namespace),
            custom: world.spreads().custom(),
            target: workload.as_ref(),
            gates: &admission.gates,
            allow_privileged: admission.flags.allow_privileged,
        };
        review(write.object, write.old, &context)
    };
    judged(write, verdict, |new, old| trials(new, old, workload.as_ref())).await
}

/// The target, where the patch of some subset has to be tried on its template.
async fn read_template(write: &Write<'_>, spread: &Spread) -> Result<Option<Value>, Verdict> {
    if !spread.has_patches() || !custom::is_built_in(spread.target()) || spread.target().name.is_empty() {
        return Ok(None);
    }
    let target = spread.target();
    let reference = (custom::api_version(spread), &*target.kind, &*target.name);
    let lookup = write.admission.lookup.object(write.namespace, reference);
    match write.deadline.within("reading the target", lookup).await {
        Ok(Ok(text)) => Ok(text.and_then(|text| serde_json::from_str(&text).ok())),
        Ok(Err(error)) => Err(Verdict::deny(500, format!("the target can't be read, try again: {error}"))),
        Err(slow) => Err(Verdict::deny(504, slow.to_string())),
    }
}

/// The refusal while WorkloadSpreads are needed but not known. Where there is no such kind, there are none.
pub(crate) fn not_loaded(admission: &Admission) -> Option<Verdict> {
    let needed = admission.gates.enabled(Feature::WorkloadSpread)
        && admission.index.cache_state(Watched::WorkloadSpread) != CacheState::Absent;
    if needed { admission.not_loaded(Watched::WorkloadSpread) } else { None }
}

/// Finds out where a new Pod is placed, and claims a slot for it where subsets are limited.
pub(crate) async fn place(
    admission: &Admission,
    review: &Review<'_>,
    deadline: Deadline,
) -> Result<Option<Placement>, Denial> {
    let mut owners = Owners::default();
    loop {
        // A fresh one each time: what arrived during a lookup counts.
        let world = admission.index.world();
        match review.choose(&world, &owners) {
            Choice::Known(placement) => return Ok(placement),
            Choice::Slot(request) => {
                let subset = claim(admission, review.namespace(), &request, deadline).await?;
                return Ok(Some(request.placement(subset)));
            }
            Choice::Owner(owner) => {
                let above = read_owner(admission, review.namespace(), &owner, deadline).await?;
                owners.add(owner, above);
            }
        }
    }
}

/// Who manages an owner of a Pod, if anybody does.
async fn read_owner(
    admission: &Admission,
    namespace: &str,
    owner: &OwnerReference,
    deadline: Deadline,
) -> Result<Option<OwnerReference>, Denial> {
    let (kind, name) = (&owner.kind, &owner.name);
    let lookup = admission.lookup.owner(namespace, owner);
    match deadline.within("reading the owner of the Pod", lookup).await {
        Ok(Ok(Some(above))) => Ok(above),
        // A Pod must not slip past its subset because its owner is not there yet.
        Ok(Ok(None)) => Err(Denial::failed(format!("the owner {kind} {name} of the Pod is not found"))),
        Ok(Err(error)) if requires_subset(admission, namespace) => {
            let message = format!("the owner {kind} {name} of the Pod can't be read, try again: {error}");
            Err(Denial::failed(message))
        }
        Ok(Err(error)) => {
            warn!(kind, name, %error, "WorkloadSpreads above this owner are passed over");
            Ok(None)
        }
        Err(slow) => Err(Denial::new(504, slow.to_string())),
    }
}

/// Whether there are Pods in the namespace that must not slip past their subsets.
fn requires_subset(admission: &Admission, namespace: &str) -> bool {
    admission.index.world().spreads().of(namespace).iter().any(Spread::requires_subset)
}

/// Claims a slot for a Pod; `None` where no subset has one.
async fn claim(
    admission: &Admission,
    namespace: &str,
    request: &SlotRequest<'_>,
    deadline: Deadline,
) -> Result<Option<String>, Denial> {
    let spread = request.spread;
    let replicas = if spread.has_shares() { replicas(admission, namespace, spread).await } else { None };
    let path = SPREADS.namespaced(namespace).name(spread.name());
    let claim = request.claim(replicas);
    match admission.spreads.claim(&path, Some(spread.text().clone()), claim, deadline.moment()).await {
        Ok(Some(Answer::Subset(subset) | Answer::Unlimited(subset))) => Ok(Some(subset)),
        // One that is gone divides nothing.
        Ok(Some(Answer::Full | Answer::Noted | Answer::Nothing) | None) => Ok(None),
        Err(ReservationError::Late) => Err(Denial::new(504, ReservationError::Late.to_string())),
        Err(error) => {
            let name = spread.name();
            Err(Denial::failed(format!("no slot in WorkloadSpread {name} can be taken: {error}")))
        }
    }
}

/// The replicas of the target, which are 0 where there is none; `None` where they can't be known, and the status
/// has to do.
async fn replicas(admission: &Admission, namespace: &str, spread: &Spread) -> Option<i32> {
    let replicas = read_replicas(admission, namespace, spread).await;
    let not_known = |problem: &String| {
        warn!(namespace, spread = spread.name(), problem, "the replicas of the target are not known");
    };
    replicas.inspect_err(not_known).ok().flatten()
}

async fn read_replicas(
    admission: &Admission,
    namespace: &str,
    spread: &Spread,
) -> Result<Option<i32>, String> {
    let (world, target) = (admission.index.world(), spread.target());
    let custom = world.spreads().custom().unwrap_or(&custom::NONE);
    let reference = (custom::api_version(spread), &*target.kind, &*target.name);
    if custom::goes_by_scale(spread, custom) {
        // Where the scale may not be read, the object may say something.
        let scale = admission.lookup.scale(namespace, reference).await.unwrap_or_default();
        if let Some(scale) = scale {
            return ResolvedWorkload::replicas_of_scale(&scale).map_err(|error| error.to_string());
        }
    }
    match admission.lookup.object(namespace, reference).await.map_err(|error| error.to_string())? {
        None => Ok(Some(0)),
        Some(text) => {
            let workload: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            custom::replicas(spread, custom, &workload)
        }
    }
}

/// Notes that a Pod is to be deleted. What can't be noted is detected by the controller when the Pod is gone: no Pod
/// stays because of it.
pub(crate) async fn give_back(admission: &Admission, spread: &Spread, claim: Claim, deadline: Deadline) {
    let path = SPREADS.namespaced(spread.namespace()).name(spread.name());
    let watched = Some(spread.text().clone());
    if let Err(error) = admission.spreads.claim(&path, watched, claim, deadline.moment()).await {
        warn!(namespace = spread.namespace(), spread = spread.name(), %error, "a deletion is not noted");
    }
}
