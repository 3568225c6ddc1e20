//! The mutation of Pods at their creation.

use std::sync::Arc;

use admission::pod_review::explanation::Explanation;
use admission::pod_review::{Resolved, Review};
use admission::world::Watched;
use api::features::Feature;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, Ready, ready};
use informers::index::CacheState;
use kinds::workload::namespace::Namespace;
use pod::review::{Operation, Pod, PodReview};
use values::verdict::{Denial, Verdict};

use super::{persistentpodstate, workloadspread};
use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;

/// Decides from the index alone; it asks the cluster, briefly, only where a WorkloadSpread may divide the Pod, or where the
/// index lacks a Namespace that may decide.
pub(crate) fn mutate<'a, O>(
    admission: &'a Admission,
    request: &'a Request<'_, O>,
    pod: Pod<'a>,
    deadline: Deadline,
) -> Either<Ready<Verdict>, BoxFuture<'a, Verdict>> {
    let review = match begin(admission, request, pod) {
        Ok(review) => review,
        Err(verdict) => return Either::Left(ready(verdict)),
    };
    let world = admission.index.world();
    if !review.awaits(&world) {
        return Either::Left(ready(review.decide(&world, &Resolved::default())));
    }
    // In a box, since it is rare: it would make the future of every review larger.
    Either::Right(
        async move {
            match resolve(admission, &review, deadline).await {
                // A fresh world: what arrived during a lookup counts.
                Ok(resolved) => review.decide(&admission.index.world(), &resolved),
                Err(denial) => denial.into(),
            }
        }
        .boxed(),
    )
}

fn begin<'a, O>(
    admission: &'a Admission,
    request: &'a Request<'_, O>,
    object: Pod<'a>,
) -> Result<Review<'a>, Verdict> {
    // A Pod must not slip in without its sidecars because a cache is not there yet.
    if let Some(refused) = not_loaded(admission) {
        return Err(refused);
    }
    let Some(operation) = operation(&request.operation) else {
        return Err(Verdict::deny(400, format!("unknown operation {:?}", request.operation)));
    };
    let review = PodReview {
        operation,
        dry_run: request.dry_run.unwrap_or(false),
        subresource: &request.sub_resource,
        resource: &request.resource.resource,
        namespace: &request.namespace,
        object,
    };
    Review::begin(review, &admission.gates, (admission.clock)())
}

/// Finds out what the review needs and the index lacks.
async fn resolve(admission: &Admission, review: &Review<'_>, deadline: Deadline) -> Result<Resolved, Denial> {
    let placement = workloadspread::place(admission, review, deadline).await?;
    let is_known = !admission.index.world().inventory().lacks_namespace(review.namespace());
    let namespace =
        if is_known { Ok(None) } else { read_namespace(admission, review.namespace(), deadline).await };
    Ok(Resolved { namespace, placement })
}

async fn read_namespace(
    admission: &Admission,
    name: &str,
    deadline: Deadline,
) -> Result<Option<Arc<Namespace>>, Denial> {
    match deadline.within("reading the Namespace", admission.lookup.namespace(name)).await {
        Ok(Ok(namespace)) => Ok(namespace),
        // Letting the Pod through here could leave it without its sidecars.
        Ok(Err(error)) => {
            Err(Denial::failed(format!("the Namespace {name} cannot be read, try again: {error}")))
        }
        Err(slow) => Err(Denial::new(504, slow.to_string())),
    }
}

/// Decides the creation of a Pod as [`mutate`] does, and says what every object that might concern it is to it.
pub(crate) async fn explain(
    admission: &Admission,
    pod: &str,
    namespace: &str,
    deadline: Deadline,
) -> Vec<Explanation> {
    let request = |object| PodReview {
        operation: Operation::Create,
        dry_run: false,
        subresource: "",
        resource: "pods",
        namespace,
        object,
    };
    let Ok(pod) = Pod::read(pod) else { return Vec::new() };
    let Ok(review) = Review::begin(request(pod), &admission.gates, (admission.clock)()) else {
        return Vec::new();
    };
    let Ok(resolved) = resolve(admission, &review, deadline).await else { return Vec::new() };
    review.explain(&admission.index.world(), &resolved).1
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

fn operation(name: &str) -> Option<Operation> {
    match name {
        "CREATE" => Some(Operation::Create),
        "UPDATE" => Some(Operation::Update),
        "DELETE" => Some(Operation::Delete),
        "CONNECT" => Some(Operation::Connect),
        _ => None,
    }
}
