//! The annotations of a Pod template that Kubernetes itself reads.

use std::collections::HashSet;

use serde_json::Value;

use super::metadata::text_entries;
use super::node::Node;
use super::pod_context::every_container;
use super::scheduling::validate_tolerations;
use super::security::{SECCOMP_CONTAINER_ANNOTATIONS, SECCOMP_POD_ANNOTATION, validate_seccomp_annotation};
use values::field::FieldError;
use values::json_patch::string;

/// The annotations of a template that Kubernetes itself reads.
pub(super) fn validate_pod_annotations(template: &Node<'_>, spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    let Some(metadata) = template.child("metadata") else { return };
    let path = template.at("annotations");
    let mut names: Option<HashSet<&str>> = None;
    for (key, value) in text_entries(&metadata, "annotations") {
        match key {
            "kubernetes.io/config.mirror" if spec.text("nodeName").is_empty() => {
                errors.push(FieldError::invalid(
                    path.key(key),
                    value,
                    "must set spec.nodeName if mirror pod annotation is set",
                ));
            }
            "scheduler.alpha.kubernetes.io/tolerations" if !value.is_empty() => {
                let tolerations: Result<Vec<Value>, _> = serde_json::from_str(value);
                match tolerations {
                    Err(error) => errors.push(FieldError::invalid(path.clone(), key, error.to_string())),
                    Ok(tolerations) => validate_tolerations(
                        tolerations
                            .iter()
                            .enumerate()
                            .map(|(index, value)| Node::new(value, path.child(key).index(index))),
                        errors,
                    ),
                }
            }
            _ if key == SECCOMP_POD_ANNOTATION || key.starts_with(SECCOMP_CONTAINER_ANNOTATIONS) => {
                validate_seccomp_annotation(value, &path.child(key), errors);
            }
            _ => {
                let Some(container) = key.strip_prefix(APPARMOR) else { continue };
                let names = names.get_or_insert_with(|| container_names(spec));
                if !names.contains(container) {
                    errors.push(FieldError::invalid(path.key(key), container, "container not found"));
                }
                if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with("localhost/")
                {
                    let message = format!("invalid AppArmor profile name: {}", string(value));
                    errors.push(FieldError::invalid(path.key(key), value, message));
                }
            }
        }
    }
}

fn container_names<'a>(spec: &Node<'a>) -> HashSet<&'a str> {
    every_container(spec).map(|container| container.text("name")).collect()
}
