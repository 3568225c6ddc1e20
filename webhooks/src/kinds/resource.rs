//! What the two webhooks of a custom resource read: one fills in defaults, the other validates. Which requests concern
//! them is decided here.

use api::features::{Feature, FeatureGates};
use kinds::daemonset::validation::Context;
use kinds::workload::submitted::leaves_spec;
use serde_json::value::RawValue;
use values::json_patch::Patch;
use values::verdict::{Denial, Verdict};

use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;

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
    pub(super) fn of(admission: &'a Admission, request: &'a Request<'_>, deadline: Deadline) -> Option<Self> {
        let is_write = matches!(&*request.operation, "CREATE" | "UPDATE");
        if !is_write || !request.sub_resource.is_empty() {
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

    pub(super) fn gates(&self) -> &'a FeatureGates {
        &self.admission.gates
    }

    /// What the validation of most workloads reads beside the object.
    pub(super) fn context(&self) -> Context<'a> {
        Context { gates: self.gates(), allow_privileged: self.admission.flags.allow_privileged }
    }

    /// These defaults, unless the spec stays as it is: it needs none, and is not validated.
    pub(super) fn edited_spec(
        &self,
        defaults: impl FnOnce() -> Result<Patch, Denial>,
    ) -> Result<Patch, Denial> {
        if self.leaves_spec() { Ok(Patch::default()) } else { defaults() }
    }

    /// It changes only what lies beside the spec, such as labels and finalizers.
    fn leaves_spec(&self) -> bool {
        leaves_spec(self.object, self.old)
    }

    /// The answer to an update that leaves the spec as it is, whatever is wrong with it, or it could not lose its finalizers;
    /// else the one while one of these gates is off. `None` where the object has to be validated.
    pub(super) fn early_answer(&self, gates: &[Feature]) -> Option<Verdict> {
        if self.leaves_spec() { Some(Verdict::allow()) } else { self.without_gate(gates) }
    }

    /// The answer while one of these gates is off: labels and finalizers of what is stored can still be changed, or it
    /// could not go. `None` where all are on.
    pub(super) fn without_gate(&self, gates: &[Feature]) -> Option<Verdict> {
        let off = gates.iter().find(|gate| !self.admission.gates.enabled(**gate))?;
        if self.leaves_spec() {
            return Some(Verdict::allow());
        }
        Some(Verdict::deny(403, format!("feature-gate {} is not enabled", off.name())))
    }
}
