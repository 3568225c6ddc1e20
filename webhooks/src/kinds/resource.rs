//! The two webhooks of a custom resource: one fills in defaults, the other validates. A kind brings a
//! [`Defaulting`] where it has defaults, and a [`Validation`]; which requests concern them is decided here.

use std::fmt;

use api::features::Feature;
use futures::future::BoxFuture;
use kinds::deletion_protection::{Kind, unknown_value};
use kinds::workload::submitted::leaves_spec;
use serde_json::value::RawValue;
use values::json_patch::Patch;
use values::verdict::{Denial, Verdict};

use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;

/// The mutating webhook of a custom resource.
pub struct Defaulting {
    /// Its path.
    pub(crate) path: &'static str,
    /// Fills in defaults, in the version of the request. Needs no cache.
    pub(crate) default: fn(&Write<'_>) -> Result<Patch, Denial>,
}

/// The validating webhook of a custom resource.
pub struct Validation {
    /// Where it is called.
    pub(crate) at: ValidatedAt,
    /// Checks the object, and completes it where its mutating webhook has to ask the cluster.
    pub(crate) validate: for<'a> fn(&'a Write<'a>) -> BoxFuture<'a, Verdict>,
}

/// Where a custom resource is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValidatedAt {
    /// A path for creates and updates alone, and the one that older charts register.
    Path { path: &'static str, legacy: Option<&'static str> },
    /// The path of the deletion protection of this kind.
    Protection(Kind),
}

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

impl Defaulting {
    pub(crate) fn mutate(&self, admission: &Admission, request: &Request<'_>, deadline: Deadline) -> Verdict {
        match Write::of(admission, request, deadline).map(|write| (self.default)(&write)) {
            None => Verdict::allow(),
            Some(Ok(edits)) => Verdict::edit(edits),
            Some(Err(denial)) => denial.into(),
        }
    }
}

impl Validation {
    /// Whether it shares the webhook of this kind's deletion protection.
    pub(crate) fn shares(&self, kind: Kind) -> bool {
        self.at == ValidatedAt::Protection(kind)
    }

    pub(crate) async fn validate(
        &self,
        admission: &Admission,
        request: &Request<'_>,
        deadline: Deadline,
    ) -> Verdict {
        let Some(write) = Write::of(admission, request, deadline) else { return Verdict::allow() };
        let mut verdict = (self.validate)(&write).await;
        if let Verdict::Allow { warnings, .. } = &mut verdict
            && matches!(self.at, ValidatedAt::Protection(_))
            && admission.gates.enabled(Feature::ResourcesDeletionProtection)
        {
            warnings.extend(request.object.and_then(unknown_value));
        }
        verdict
    }
}

// Each kind has paths of its own.
impl PartialEq for Defaulting {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Defaulting {}

impl PartialEq for Validation {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Validation {}

impl fmt::Debug for Defaulting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.path)
    }
}

impl fmt::Debug for Validation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(formatter)
    }
}
