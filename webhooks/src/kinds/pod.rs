//! The mutation of Pods at their creation.

use api::features::Feature;
use cluster::index::CacheState;
use planner::pod::review::{Operation, Pod, PodReview};
use planner::server::pod_review::{self, Outcome};
use planner::server::world::Watched;
use planner::text::moment::Moment;
use planner::text::verdict::Verdict;
use planner::workload::namespace::Namespace;

use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;

/// Decides from the index alone; only where the answer hangs on a Namespace that the index lacks it
/// asks the cluster, once and briefly.
pub(crate) async fn mutate<O>(
    admission: &Admission,
    request: &Request<'_, O>,
    pod: Pod<'_>,
    deadline: Deadline,
) -> Verdict {
    // A Pod must not slip in without its sidecars because a cache is not there yet.
    if let Some(refused) = admission.not_loaded(Watched::SidecarSet).or_else(|| markers(admission)) {
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
    if let Outcome::Decided(verdict) = decide(admission, review(pod), None, moment) {
        return verdict;
    }
    // In a box, since it is rare: it would make the future of every review larger.
    let lookup = Box::pin(admission.lookup.namespace(&request.namespace));
    let namespace = match deadline.within("reading the Namespace", lookup).await {
        Ok(Ok(namespace)) => namespace,
        // Letting the Pod through here could leave it without its sidecars.
        Ok(Err(error)) => {
            let name = &request.namespace;
            return Verdict::deny(500, format!("the Namespace {name} cannot be read, try again: {error}"));
        }
        Err(slow) => return Verdict::deny(504, slow.to_string()),
    };
    let missing = Namespace::missing();
    let pod = match Pod::read(text) {
        Ok(pod) => pod,
        Err(denial) => return denial.into(),
    };
    match decide(admission, review(pod), Some(namespace.as_deref().unwrap_or(&missing)), moment) {
        Outcome::Decided(verdict) => verdict,
        Outcome::NeedsNamespace => {
            Verdict::deny(500, format!("the Namespace {} cannot be read; try again", request.namespace))
        }
    }
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
    namespace: Option<&Namespace>,
    moment: Moment,
) -> Outcome {
    pod_review::decide(review, &admission.index.world(), namespace, &admission.gates, moment)
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
