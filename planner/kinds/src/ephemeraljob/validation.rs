//! What an EphemeralJob may say (docs/behaviour/restarts.md#validation-of-an-ephemeraljob).

use api::kinds::ephemeraljob::EphemeralJob;
use serde_json::Value;

use crate::workload::submitted::leaves_spec;
use pod::template::defaulting::{ContainerDefaults, default_container};
use pod::template::place::Place;
use pod::template::{PullPolicy, validate_ephemeral_containers};
use values::field::{FieldError, FieldPath};
use values::json_patch::{Patch, Pointer, apply};
use values::selector::Selector;
use values::verdict::{Denial, Verdict, refused};

/// What Kubernetes gives an ephemeral container that does not say it.
const DEFAULTS: ContainerDefaults = ContainerDefaults {
    pull_policy: PullPolicy::ByTag,
    startup_probes: false,
    host_ports: false,
    canonical_quantities: false,
};

/// Answers a create or, with `old`, an update.
pub fn review(new: &str, old: Option<&str>, allow_privileged: bool) -> Verdict {
    // A job that was stored before it was checked must be able to lose its finalizer.
    if leaves_spec(new, old) {
        return Verdict::allow();
    }
    match validate(new, allow_privileged) {
        Ok(errors) => Verdict::of(&errors, 400, Vec::new()),
        Err(denial) => denial.into(),
    }
}

fn validate(object: &str, allow_privileged: bool) -> Result<Vec<FieldError>, Denial> {
    let job: EphemeralJob = serde_json::from_str(object).map_err(refused)?;
    let mut errors = Vec::new();
    if let Err(error) = Selector::compile(&job.spec.selector) {
        let shown = serde_json::to_string(&job.spec.selector).unwrap_or_default();
        errors.push(FieldError::invalid_value(FieldPath::new("spec.selector"), shown, error.to_string()));
    }
    let complete = completed(object)?;
    let template = complete.pointer("/spec/template").unwrap_or(&Value::Null);
    errors.extend(validate_ephemeral_containers(template, allow_privileged));
    Ok(errors)
}

/// The job with the defaults that the API server will give its containers in a Pod.
fn completed(object: &str) -> Result<Value, Denial> {
    let value: Value = serde_json::from_str(object).map_err(refused)?;
    let root = Place::new(&value, Pointer::root());
    let mut patch = Patch::default();
    if let Some(template) = root.child("spec").and_then(|spec| spec.child("template")) {
        for container in template.list("ephemeralContainers") {
            default_container(&container, DEFAULTS, &mut patch);
        }
    }
    let complete = apply(object, &patch).map_err(refused)?;
    serde_json::from_str(&complete).map_err(refused)
}
