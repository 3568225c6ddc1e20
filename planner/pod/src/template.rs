//! Pod templates inside workloads: the API server does not look into them, so their defaults and their
//! validation are here (docs/behaviour/pod-template.md).
//!
//! ```text
//!   defaulting   what is missing, as a patch of the raw object
//!   comparison   whether two templates say the same
//!   complete     a template with all that its Pods will have
//!   pod_spec     the checks of a Pod spec, and through it
//!     containers, environment, probes, resources, security   per container
//!     volumes, projected, claims                             per volume
//!     scheduling                                             where Pods may run
//!   metadata, names   labels, annotations, selectors and the syntax of names
//!   pod_annotations   annotations that Kubernetes itself reads
//!   node, limits, pod_context   what the checks share: reading values, ranges and paths, the Pod around them
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

use values::canonical::{Kind, table};
use values::field::{FieldError, FieldPath};
use values::selector::Selector;

mod claims;
pub mod comparison;
pub mod complete;
mod containers;
pub mod defaulting;
pub mod environment;
pub(crate) mod image;
pub mod limits;
pub mod metadata;
pub mod names;
pub mod node;
pub mod place;
mod pod_annotations;
mod pod_context;
mod pod_spec;
pub mod probes;
mod projected;
mod resources;
pub mod scheduling;
mod security;
mod volumes;

pub use defaulting::{PullPolicy, default_claim_template, default_template};
use node::Node;

/// How much of a template is checked (docs/behaviour/pod-template.md#validation-of-templates).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Everything.
    Full,
    /// Labels, annotations and the restart policy, as Kubernetes does for StatefulSets.
    Shallow,
}

/// Which restart policies the Pods of a kind may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy<'a> {
    /// Only `Always`, and no `activeDeadlineSeconds`; the kind is named in the message.
    Always {
        /// As Kruise spells it: `cloneset`, `StatefulSet`, `DaemonSet`, `ReplicaSet`.
        kind: &'a str,
    },
    /// Only `OnFailure` and `Never`.
    OnFailureOrNever,
    /// Whatever Kubernetes knows.
    Any,
}

/// The rules of one kind of workload for its template.
#[derive(Clone, Debug)]
pub struct TemplateRules<'a> {
    /// Path of the template, `spec.template`.
    pub path: FieldPath,
    /// How much is checked.
    pub depth: Depth,
    /// Which restart policies are allowed.
    pub restart_policy: RestartPolicy<'a>,
    /// The workload's selector, which must match the template's labels; an empty one is not compared.
    pub selector: Option<&'a Selector>,
    /// The flag `--allow-privileged`.
    pub allow_privileged: bool,
}

/// Checks a Pod template that has its defaults already.
pub fn validate_template(template: &Value, rules: &TemplateRules<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let template = Node::new(template, rules.path.clone());
    node::check_types(&template, &Kind::Struct(&table::POD_TEMPLATE_SPEC), &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    let nothing = Value::Null;
    let metadata = template.child("metadata").unwrap_or_else(|| Node::new(&nothing, template.at("metadata")));
    let spec = template.child("spec").unwrap_or_else(|| Node::new(&nothing, template.at("spec")));
    if let Some(selector) = rules.selector.filter(|selector| !selector.is_empty()) {
        let labels = metadata::text_entries(&metadata, "labels");
        let labels: BTreeMap<String, String> =
            labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        if !selector.matches(&labels) {
            let shown = metadata::go_map(metadata::text_entries(&metadata, "labels"));
            let message = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid_value(metadata.at("labels"), shown, message));
        }
    }
    // Kubernetes leaves `metadata` out of these two paths.
    metadata::validate_labels(
        metadata::text_entries(&metadata, "labels"),
        &template.at("labels"),
        &mut errors,
    );
    let annotations = metadata::text_entries(&metadata, "annotations");
    metadata::validate_annotations(annotations, &template.at("annotations"), &mut errors);
    pod_annotations::validate_pod_annotations(&template, &spec, &mut errors);
    if rules.depth == Depth::Full {
        pod_spec::validate_pod_spec(&spec, rules.allow_privileged, &mut errors);
        security::validate_profile_annotations(&template, &spec, &mut errors);
        if spec.count("ephemeralContainers") > 0 {
            let message = "ephemeral containers not allowed in pod template";
            errors.push(FieldError::forbidden(spec.at("ephemeralContainers"), message));
        }
    }
    validate_restart_policy(&spec, rules.restart_policy, &mut errors);
    errors
}

fn validate_restart_policy(spec: &Node<'_>, rule: RestartPolicy<'_>, errors: &mut Vec<FieldError>) {
    let policy = spec.text("restartPolicy");
    match rule {
        RestartPolicy::Always { kind } => {
            if policy != "Always" {
                errors.push(FieldError::not_supported(spec.at("restartPolicy"), policy, &["Always"]));
            }
            if spec.has("activeDeadlineSeconds") {
                let message = format!("activeDeadlineSeconds in {kind} is not Supported");
                errors.push(FieldError::forbidden(spec.at("activeDeadlineSeconds"), message));
            }
        }
        RestartPolicy::OnFailureOrNever if !matches!(policy, "OnFailure" | "Never") => {
            let message = "pod restartPolicy can only be Never or OnFailure";
            errors.push(FieldError::invalid(spec.at("restartPolicy"), policy, message));
        }
        RestartPolicy::OnFailureOrNever | RestartPolicy::Any => {}
    }
}

/// Checks the containers and volumes of a SidecarSet as those of a Pod that always restarts
/// (docs/behaviour/sidecarset.md#spec-rules). `spec` has the members `containers`, `initContainers` and
/// `volumes`.
pub fn validate_sidecars(spec: &Value, path: FieldPath, allow_privileged: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Node::new(spec, path);
    node::check_types(&spec, &Kind::Struct(&table::POD_SPEC), &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    // Which Pods the sidecars come to is not known, so no grace period bounds their hooks.
    let context = pod_spec::pod_context(&spec, None, allow_privileged, &mut errors);
    if spec.count("containers") > 0 {
        containers::validate_containers(&spec, &context, &mut errors);
    }
    containers::validate_init_containers(&spec, &context, &mut errors);
    containers::validate_image_paddings(&spec, &mut errors);
    errors
}

/// Checks the `ephemeralContainers` of `holder`, which have their defaults already. Which Pods they come to is not
/// known.
pub fn validate_ephemeral_containers(holder: &Value, allow_privileged: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let holder = Node::new(holder, FieldPath::default());
    node::check_types(&holder, &Kind::Struct(&table::POD_SPEC), &mut errors);
    if errors.is_empty() {
        let context = pod_spec::pod_context(&holder, None, allow_privileged, &mut errors);
        containers::validate_ephemeral_containers(&holder, &context, &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests;
