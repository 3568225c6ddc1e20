//! Requests that delete, evict or change Pods: takes what they need, reports those that are refused.
//! The decisions are [`admission::pod_validation`].

use admission::pod_validation::{Assessment, BudgetClaim, Claims, assess};
use admission::world::Watched;
use cluster::reservation::ReservationError;
use cluster::resource::BUDGETS;
use informers::index::CacheState;
use kinds::podunavailablebudget::reserve::{Answer, Foreseen, Rules};
use pod::disruption::PodRequest;
use pod::exit_priority::change_without_effect;
use pod::observed::ObservedPod;
use serde_json::value::RawValue;
use values::json_patch::Patch;
use values::verdict::{Denial, Reason, Verdict};

use super::workloadspread;
use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::protection_log::Entry;
use crate::review::Request;

/// When a client tries a refused eviction again.
const RETRY_AFTER_SECONDS: u32 = 10;
/// Lets a request pass when what it needs has been taken.
pub(crate) async fn validate(admission: &Admission, request: &Request<'_>, deadline: Deadline) -> Verdict {
    if let Some(refused) = budgets(admission).or_else(|| workloadspread::not_loaded(admission)) {
        return refused;
    }
    let pod_request = PodRequest {
        operation: &request.operation,
        subresource: &request.sub_resource,
        namespace: &request.namespace,
        name: &request.name,
        object: request.object.map(RawValue::get),
        old_object: request.old_object.map(RawValue::get),
        options: request.options.map(RawValue::get),
        dry_run: request.dry_run.unwrap_or(false),
    };
    let claims = match assessment(admission, &pod_request, None) {
        Assessment::NeedsPod => {
            // In a box, since only evictions ask.
            let lookup = Box::pin(admission.lookup.pod(&request.namespace, &request.name));
            match deadline.within("reading the Pod", lookup).await {
                Ok(Ok(Some(pod))) => assessment(admission, &pod_request, Some(&pod)),
                // The API server answers that there is none.
                Ok(Ok(None)) => return Verdict::allow(),
                Ok(Err(error)) => {
                    let name = &request.name;
                    return Verdict::deny(500, format!("the Pod {name} cannot be read, try again: {error}"));
                }
                Err(slow) => return Verdict::deny(504, slow.to_string()),
            }
        }
        assessment => assessment,
    };
    match claims {
        Assessment::Denied(denial) => denial.into(),
        Assessment::NeedsPod => Verdict::deny(500, format!("the Pod {} cannot be read", request.name)),
        Assessment::Claims(claims) => {
            let claims = owed(admission, request, claims, deadline).await;
            if let Some(claim) = claims.budget {
                let verdict = take_unit(admission, request, claim, deadline).await;
                if !verdict.is_allowed() {
                    return verdict;
                }
            }
            if let Some((spread, claim)) = claims.slot {
                workloadspread::give_back(admission, &spread, claim, deadline).await;
            }
            let warning = change_without_effect(pod_request.old_object, pod_request.object, &admission.gates);
            Verdict::Allow { edits: Patch::default(), warnings: warning.into_iter().collect() }
        }
    }
}

/// The refusal while budgets are not known. Where there is no such kind, there are none.
fn budgets(admission: &Admission) -> Option<Verdict> {
    let is_absent = admission.index.cache_state(Watched::PodUnavailableBudget) == CacheState::Absent;
    if is_absent { None } else { admission.not_loaded(Watched::PodUnavailableBudget) }
}

fn assessment(admission: &Admission, request: &PodRequest<'_>, evicted: Option<&ObservedPod>) -> Assessment {
    assess(request, evicted, &admission.index.world(), &admission.gates)
}

/// The claims; none where the Pod is not there: a forged review may name such a one, and so may one that comes late.
async fn owed(
    admission: &Admission,
    request: &Request<'_>,
    claims: Box<Claims>,
    deadline: Deadline,
) -> Box<Claims> {
    let (rules, now) = (Rules::new(&admission.gates), (admission.clock)().now);
    let is_free = |budget: &BudgetClaim| rules.foresee(&budget.watched, &budget.claim, now) == Foreseen::Free;
    let takes_nothing = claims.slot.is_none() && claims.budget.as_ref().is_none_or(is_free);
    // That of an eviction, which shows none, has been read.
    let Some(shown) = request.old_object.filter(|_| !takes_nothing) else { return claims };
    let Ok(ObservedPod { metadata, .. }) = ObservedPod::read_metadata(shown.get()) else { return claims };
    // In a box, since only few requests ask.
    let lookup = Box::pin(admission.lookup.may_exist(&request.namespace, &metadata.name, &metadata.uid));
    match deadline.within("reading the Pod", lookup).await {
        Ok(false) => Box::default(),
        Ok(true) | Err(_) => claims,
    }
}

/// Takes a unit of a budget for the request.
async fn take_unit(
    admission: &Admission,
    request: &Request<'_>,
    BudgetClaim { name, watched, claim, pod }: BudgetClaim,
    deadline: Deadline,
) -> Verdict {
    let path = BUDGETS.namespaced(&request.namespace).name(&name);
    let answer = admission.budgets.claim(&path, Some(watched), claim, deadline.moment()).await;
    let denial = match answer {
        // A budget that is gone protects nothing.
        Ok(None | Some(Answer::Granted)) => return Verdict::allow(),
        Ok(Some(Answer::Refused(refusal))) => refusal.denial(&name),
        Err(ReservationError::Late) => return Verdict::deny(504, ReservationError::Late.to_string()),
        Err(error) => Denial { code: 403, message: error.to_string() },
    };
    if denial.code != 403 {
        return denial.into();
    }
    record(admission, request, &pod);
    let is_eviction = &*request.sub_resource == "eviction";
    if is_eviction && admission.flags.retry_refused_evictions {
        let reason = Reason::TooManyRequests { retry_after_seconds: RETRY_AFTER_SECONDS };
        return Verdict::Refuse(Denial { code: 429, ..denial }, reason);
    }
    Verdict::Refuse(denial, Reason::Forbidden)
}

/// Counts, records and logs a refusal.
fn record(admission: &Admission, request: &Request<'_>, pod: &ObservedPod) {
    let namespace = if request.namespace.is_empty() { "default" } else { &*request.namespace };
    let owner = pod.controller();
    let (kind, name) = owner.map_or(("unknown", &*pod.metadata.name), |owner| (&*owner.kind, &*owner.name));
    let user = &*request.user_info.username;
    let user_label = admission.flags.user_names_in_metrics.then_some(user);
    let key = format!("{kind}_{namespace}_{name}");
    admission.metrics.disruptions_refused.count(&key, user_label);
    if let Some(refusals) = &admission.refusals {
        refusals.record(namespace, pod);
    }
    let entry = Entry { event: "PodUnavailableBudget", kind, namespace, name, user };
    if !admission.protection_log.record(&entry) {
        admission.metrics.log_lines_dropped.inc();
    }
}
