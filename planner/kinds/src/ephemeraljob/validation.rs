//! What an EphemeralJob may say (docs/behaviour/restarts.md#validation-of-an-ephemeraljob).

use api::kinds::ephemeraljob::EphemeralJob;
use serde_json::Value;

use crate::workload::submitted::leaves_spec;
use crate::workload::validation::keep_new_selectors;
use pod::template::defaulting::{ContainerDefaults, default_container};
use pod::template::metadata::validate_selector;
use pod::template::place::Place;
use pod::template::{PullPolicy, validate_ephemeral_containers};
use values::field::{FieldError, FieldPath};
use values::json_patch::{Patch, Pointer, apply};
use values::read::from_str;
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
    let mut errors = match validate(new, allow_privileged) {
        Ok(errors) => errors,
        Err(denial) => return denial.into(),
    };
    if let Some(old) = old {
        // What can't be read was not right in any way.
        keep_new_selectors(&mut errors, || validate(old, allow_privileged).unwrap_or_default());
    }
    Verdict::of(&errors, 400, Vec::new())
}

fn validate(object: &str, allow_privileged: bool) -> Result<Vec<FieldError>, Denial> {
    let job: EphemeralJob = from_str(object).map_err(refused)?;
    let mut errors = Vec::new();
    validate_selector(&job.spec.selector, &FieldPath::new("spec.selector"), &mut errors);
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
