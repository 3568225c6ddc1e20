//! The CloneSet's own webhooks: defaulting and validation (spec 31 §3, §4). Deletes are decided by
//! [`protection`](crate::protection).

use std::collections::HashMap;

use api::features::Feature;
use futures::StreamExt;
use futures::stream;
use planner::kinds::cloneset::defaulting;
use planner::kinds::cloneset::validation::{Context, NamedPod, newly_named, review};
use planner::kinds::deletion_protection::unknown_value;
use planner::text::verdict::Verdict;
use serde_json::value::RawValue;

use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;

/// Pods that are asked for at the same time.
const AT_ONCE: usize = 8;

/// Fills in defaults, in the version of the request. Needs no cache.
pub(crate) fn mutate(admission: &Admission, request: &Request<'_>) -> Verdict {
    if !is_write(request) {
        return Verdict::allow();
    }
    let version = &request.resource.version;
    match defaulting::default(object(request), old(request), version, &admission.gates) {
        Ok(edits) => Verdict::edit(edits),
        Err(denial) => denial.into(),
    }
}

/// Checks a CloneSet against itself, its former self, and the Pods that it names for deletion.
pub(crate) async fn validate(admission: &Admission, request: &Request<'_>, deadline: Deadline) -> Verdict {
    if !request.sub_resource.is_empty() {
        return Verdict::allow();
    }
    let pods: HashMap<String, NamedPod> = stream::iter(newly_named(object(request), old(request)))
        .map(|name| find(admission, request, name, deadline))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let context = Context {
        gates: &admission.gates,
        allow_privileged: admission.settings.allow_privileged,
        pod: &|name| pods.get(name).cloned().unwrap_or(NamedPod::Missing),
    };
    let mut verdict = review(object(request), old(request), &context);
    if let Verdict::Allow { warnings, .. } = &mut verdict
        && admission.gates.enabled(Feature::ResourcesDeletionProtection)
    {
        warnings.extend(request.object.and_then(unknown_value));
    }
    verdict
}

async fn find(
    admission: &Admission,
    request: &Request<'_>,
    name: String,
    deadline: Deadline,
) -> (String, NamedPod) {
    let lookup = admission.lookup.pod(&request.namespace, &name);
    let pod = match deadline.within("reading the Pods to delete", lookup).await {
        Ok(Ok(Some(pod))) => NamedPod::Found(Box::new(pod)),
        Ok(Ok(None)) => NamedPod::Missing,
        Ok(Err(error)) => NamedPod::Unknown(error.to_string()),
        Err(slow) => NamedPod::Unknown(slow.to_string()),
    };
    (name, pod)
}

/// A request of the object itself that is not a delete.
pub(crate) fn is_write(request: &Request<'_>) -> bool {
    matches!(&*request.operation, "CREATE" | "UPDATE")
}

fn object<'a>(request: &Request<'a>) -> &'a str {
    request.object.map_or("null", RawValue::get)
}

fn old<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.old_object.filter(|_| request.operation == "UPDATE").map(RawValue::get)
}
