//! Pod templates inside workloads. The API server does not look into them: their defaults are here, and the checks that
//! need no cluster. The API server judges the rest when it is asked (docs/behaviour/pod-template.md).
//!
//! ```text
//!   defaulting   what is missing, as a patch of the raw object
//!   comparison   whether two templates say the same
//!   complete     a template with all that its Pods will have
//!   trial        what the API server is asked to judge, and what its answer means
//!   containers, volumes   what is wrong in every release of Kubernetes
//!   metadata, names       labels, annotations, selectors and the syntax of names
//!   scheduling, probes    what other kinds than Pods have of a Pod
//!   node, limits          what the checks share: reading values and ranges
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

use values::canonical::{Kind, table};
use values::field::{FieldError, FieldPath};
use values::selector::Selector;

pub mod comparison;
pub mod complete;
mod containers;
pub mod defaulting;
pub(crate) mod image;
pub mod limits;
pub mod metadata;
pub mod names;
pub mod node;
pub mod place;
pub mod probes;
pub mod scheduling;
pub mod trial;
mod volumes;

pub use defaulting::{PullPolicy, default_claim_template, default_template};
use node::Node;

/// How much of a template is checked (docs/behaviour/pod-template.md#validation-of-templates).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Containers and volumes too.
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
    if rules.depth == Depth::Full {
        if spec.count("containers") == 0 {
            errors.push(FieldError::required(spec.at("containers"), ""));
        }
        containers::validate_containers(&spec, rules.allow_privileged, &mut errors);
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

/// Checks the containers and volumes of a SidecarSet (docs/behaviour/sidecarset.md#spec-rules). `spec` has the members
/// `containers`, `initContainers` and `volumes`.
pub fn validate_sidecars(spec: &Value, path: FieldPath, allow_privileged: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Node::new(spec, path);
    node::check_types(&spec, &Kind::Struct(&table::POD_SPEC), &mut errors);
    if errors.is_empty() {
        containers::validate_containers(&spec, allow_privileged, &mut errors);
        for container in spec.list("containers").chain(spec.list("initContainers")) {
            containers::validate_image_padding(&container, &mut errors);
        }
    }
    errors
}

/// Checks the `ephemeralContainers` of `holder`, which have their defaults already. Which Pods they come to is not
/// known.
pub fn validate_ephemeral_containers(holder: &Value, allow_privileged: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let holder = Node::new(holder, FieldPath::default());
    node::check_types(&holder, &Kind::Struct(&table::POD_SPEC), &mut errors);
    if errors.is_empty() {
        containers::validate_ephemeral_containers(&holder, allow_privileged, &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests;
