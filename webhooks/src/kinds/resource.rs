//! The two webhooks of a custom resource: one fills in defaults, the other validates. A kind brings a
//! [`Defaulting`] where it has defaults, and a [`Validation`]; which requests concern them is decided here.

use api::features::Feature;
use futures::future::BoxFuture;
use kinds::workload::submitted::leaves_spec;
use serde_json::value::RawValue;
use values::json_patch::Patch;
use values::verdict::{Denial, Verdict};

use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;

/// Fills in defaults of a custom resource, in the version of the request. Needs no cache.
pub(crate) type Defaulting = fn(&Write<'_>) -> Result<Patch, Denial>;

/// Checks a custom resource, and completes it where its mutating webhook has to ask the cluster.
pub(crate) type Validation = for<'a> fn(&'a Write<'a>) -> BoxFuture<'a, Verdict>;

/// A create or an update of a custom resource.
pub(crate) struct Write<'a> {
    pub(crate) admission: &'a Admission,
    pub(crate) namespace: &'a str,
    /// The API version of the resource.
    pub(crate) version: &'a str,
    /// The submitted object as JSON.
    pub(crate) object: &'a str,
    /// The stored object; `None` for a create.
    pub(crate) old: Option<&'a str>,
    pub(crate) deadline: Deadline,
}

impl<'a> Write<'a> {
    /// `None` for deletes and subresources, about which these webhooks have nothing to say.
    fn of(admission: &'a Admission, request: &'a Request<'_>, deadline: Deadline) -> Option<Self> {
        if !is_write(request) || !request.sub_resource.is_empty() {
            return None;
        }
        Some(Self {
            admission,
            namespace: &request.namespace,
            version: &request.resource.version,
            object: request.object.map_or("null", RawValue::get),
            old: request.old_object.filter(|_| request.operation == "UPDATE").map(RawValue::get),
            deadline,
        })
    }

    /// It changes only what lies beside the spec, such as labels and finalizers.
    pub(crate) fn leaves_spec(&self) -> bool {
        leaves_spec(self.object, self.old)
    }

    /// The answer to an update that leaves the spec as it is, whatever is wrong with it, or it could not lose its finalizers;
    /// else the one while one of these gates is off. `None` where the object has to be validated.
    pub(crate) fn early_answer(&self, gates: &[Feature]) -> Option<Verdict> {
        if self.leaves_spec() { Some(Verdict::allow()) } else { self.without_gate(gates) }
    }

    /// The answer while one of these gates is off: labels and finalizers of what is stored can still be changed, or it
    /// could not go. `None` where all are on.
    pub(crate) fn without_gate(&self, gates: &[Feature]) -> Option<Verdict> {
        let off = gates.iter().find(|gate| !self.admission.gates.enabled(**gate))?;
        if self.leaves_spec() {
            return Some(Verdict::allow());
        }
        Some(Verdict::deny(403, format!("feature-gate {} is not enabled", off.name())))
    }
}

/// Whether a request creates or updates, rather than deletes or connects.
pub(crate) fn is_write(request: &Request<'_>) -> bool {
    matches!(&*request.operation, "CREATE" | "UPDATE")
}

/// The answer of a mutating webhook.
pub(crate) fn default(
    defaulting: Defaulting,
    admission: &Admission,
    request: &Request<'_>,
    deadline: Deadline,
) -> Verdict {
    match Write::of(admission, request, deadline).map(|write| defaulting(&write)) {
        None => Verdict::allow(),
        Some(Ok(edits)) => Verdict::edit(edits),
        Some(Err(denial)) => denial.into(),
    }
}

/// The answer of a validating webhook.
pub(crate) async fn validate(
    validation: Validation,
    admission: &Admission,
    request: &Request<'_>,
    deadline: Deadline,
) -> Verdict {
    match Write::of(admission, request, deadline) {
        Some(write) => validation(&write).await,
        None => Verdict::allow(),
    }
}
