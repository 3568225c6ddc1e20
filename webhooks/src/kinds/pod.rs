//! The mutation of Pods at their creation.

use std::cell::RefCell;
use std::sync::Arc;

use admission::pod_review::explanation::Explanation;
use admission::pod_review::{self, Known, Outcome};
use admission::world::Watched;
use api::features::Feature;
use informers::index::CacheState;
use kinds::workload::namespace::Namespace;
use kinds::workloadspread::step::Findings;
use pod::review::{Operation, Pod, PodReview};
use values::moment::Moment;
use values::verdict::Verdict;

use super::{persistentpodstate, workloadspread};
use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;

/// Decides from the index alone; it asks the cluster, briefly, only where the answer hangs on a Namespace that the
/// index lacks, or on what a WorkloadSpread needs.
pub(crate) async fn mutate<O>(
    admission: &Admission,
    request: &Request<'_, O>,
    pod: Pod<'_>,
    deadline: Deadline,
) -> Verdict {
    // A Pod must not slip in without its sidecars because a cache is not there yet.
    if let Some(refused) = not_loaded(admission) {
        return refused;
    }
    let Some(operation) = operation(&request.operation) else {
        return Verdict::deny(400, format!("unknown operation {:?}", request.operation));
    };
    let review = |object| PodReview {
        operation,
        dry_run: request.dry_run.unwrap_or(false),
        subresource: &request.sub_resource,
        resource: &request.resource.resource,
        namespace: &request.namespace,
        object,
    };
    let text = pod.text();
    let moment = (admission.clock)();
    let known = Known::default();
    match decide(admission, review(pod), known, moment) {
        Outcome::Decided(verdict) => verdict,
        // In a box, since it is rare: it would make the future of every review larger.
        outcome => {
            let again = |known: Known<'_>| match Pod::read(text) {
                Ok(pod) => decide(admission, review(pod), known, moment),
                Err(denial) => Outcome::Decided(denial.into()),
            };
            Box::pin(find_out(admission, &request.namespace, outcome, deadline, again)).await
        }
    }
}

/// How often a review is decided again before it is given up: each time it knows more.
const ROUNDS: usize = 16;

/// Finds out what a review of a Pod needs, and decides it again, until it needs nothing more.
pub(crate) async fn find_out(
    admission: &Admission,
    namespace: &str,
    mut outcome: Outcome,
    deadline: Deadline,
    decide: impl Fn(Known<'_>) -> Outcome,
) -> Verdict {
    let mut found: Option<Arc<Namespace>> = None;
    let mut findings = Findings::default();
    for _ in 0..ROUNDS {
        match outcome {
            Outcome::Decided(verdict) => return verdict,
            Outcome::NeedsNamespace if found.is_some() => break,
            Outcome::NeedsNamespace => match read_namespace(admission, namespace, deadline).await {
                Ok(namespace) => found = Some(namespace),
                Err(refused) => return refused,
            },
            Outcome::NeedsForSpread(need) => {
                let need = workloadspread::find_out(admission, namespace, *need, &mut findings, deadline);
                if let Err(refused) = need.await {
                    return refused;
                }
            }
        }
        outcome = decide(Known { namespace: found.as_deref(), spread: Some(&findings) });
    }
    Verdict::deny(500, format!("what a Pod of namespace {namespace} needs can't be found out; try again"))
}

async fn read_namespace(
    admission: &Admission,
    name: &str,
    deadline: Deadline,
) -> Result<Arc<Namespace>, Verdict> {
    match deadline.within("reading the Namespace", admission.lookup.namespace(name)).await {
        Ok(Ok(namespace)) => Ok(namespace.unwrap_or_else(|| Arc::new(Namespace::missing()))),
        // Letting the Pod through here could leave it without its sidecars.
        Ok(Err(error)) => {
            Err(Verdict::deny(500, format!("the Namespace {name} cannot be read, try again: {error}")))
        }
        Err(slow) => Err(Verdict::deny(504, slow.to_string())),
    }
}

/// Decides the creation of a Pod as [`mutate`] does, and tells what every object that might concern it is to it.
pub(crate) async fn explain(
    admission: &Admission,
    pod: &str,
    namespace: &str,
    deadline: Deadline,
) -> Vec<Explanation> {
    let review = PodReview {
        operation: Operation::Create,
        dry_run: false,
        subresource: "",
        resource: "pods",
        namespace,
        object: pod,
    };
    let (world, moment) = (admission.index.world(), (admission.clock)());
    let told = RefCell::default();
    let decide = |known: Known<'_>| {
        let (outcome, explanations) = pod_review::explain(&review, &world, known, &admission.gates, moment);
        told.replace(explanations);
        outcome
    };
    let first = decide(Known::default());
    drop(find_out(admission, namespace, first, deadline, decide).await);
    told.into_inner()
}

/// The refusal while something is not known that Pods get.
fn not_loaded(admission: &Admission) -> Option<Verdict> {
    admission
        .not_loaded(Watched::SidecarSet)
        .or_else(|| markers(admission))
        .or_else(|| workloadspread::not_loaded(admission))
        .or_else(|| persistentpodstate::not_loaded(admission))
}

/// The refusal while PodProbeMarkers are needed but not known. Where there is no such kind, there are no
/// markers. Budgets are never waited for: their controller marks the Pod later.
fn markers(admission: &Admission) -> Option<Verdict> {
    let needed = admission.gates.enabled(Feature::EnablePodProbeMarkerOnServerless)
        && admission.index.cache_state(Watched::PodProbeMarker) != CacheState::Absent;
    if needed { admission.not_loaded(Watched::PodProbeMarker) } else { None }
}

/// Takes a fresh snapshot each time: what arrived during a lookup counts.
fn decide(
    admission: &Admission,
    review: PodReview<'_, Pod<'_>>,
    known: Known<'_>,
    moment: Moment,
) -> Outcome {
    pod_review::decide(review, &admission.index.world(), known, &admission.gates, moment)
}

fn operation(name: &str) -> Option<Operation> {
    match name {
        "CREATE" => Some(Operation::Create),
        "UPDATE" => Some(Operation::Update),
        "DELETE" => Some(Operation::Delete),
        "CONNECT" => Some(Operation::Connect),
        _ => None,
    }
}
