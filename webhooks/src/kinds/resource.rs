//! The two webhooks of a custom resource: one fills in defaults, the other validates. A kind brings a
//! [`Resource`] with its two functions; which requests concern them is decided here.

use std::fmt;

use api::features::Feature;
use futures::future::BoxFuture;
use planner::kinds::deletion_protection::{Kind, unknown_value};
use planner::text::json_patch::Patch;
use planner::text::verdict::{Denial, Verdict};
use serde_json::value::RawValue;

use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;

/// A custom resource with webhooks of its own.
pub struct Resource {
    /// The path of the mutating webhook.
    pub(crate) mutate_path: &'static str,
    /// The validating webhook.
    pub(crate) validated_at: ValidatedAt,
    /// Fills in defaults, in the version of the request. Needs no cache.
    pub(crate) default: fn(&Write<'_>) -> Result<Patch, Denial>,
    /// Checks the object.
    pub(crate) validate: for<'a> fn(&'a Write<'a>) -> BoxFuture<'a, Verdict>,
}

/// The webhook that validates a custom resource.
pub(crate) enum ValidatedAt {
    /// A path for creates and updates alone.
    Path(&'static str),
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
}

/// Whether a request creates or updates, rather than deletes or connects.
pub(crate) fn is_write(request: &Request<'_>) -> bool {
    matches!(&*request.operation, "CREATE" | "UPDATE")
}

impl Resource {
    /// The kind whose deletion protection shares the validating webhook.
    pub(crate) fn protection(&self) -> Option<Kind> {
        match self.validated_at {
            ValidatedAt::Path(_) => None,
            ValidatedAt::Protection(kind) => Some(kind),
        }
    }

    pub(crate) fn mutate(&self, admission: &Admission, request: &Request<'_>, deadline: Deadline) -> Verdict {
        match Write::of(admission, request, deadline).map(|write| (self.default)(&write)) {
            None => Verdict::allow(),
            Some(Ok(edits)) => Verdict::edit(edits),
            Some(Err(denial)) => denial.into(),
        }
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
            && self.protection().is_some()
            && admission.gates.enabled(Feature::ResourcesDeletionProtection)
        {
            warnings.extend(request.object.and_then(unknown_value));
        }
        verdict
    }
}

// Each resource has a mutating webhook of its own.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.mutate_path == other.mutate_path
    }
}

impl Eq for Resource {}

impl fmt::Debug for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.mutate_path)
    }
}
