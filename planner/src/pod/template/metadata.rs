//! Labels, annotations and label selectors.

use std::collections::BTreeMap;

use serde_json::Value;

use super::names;
use super::node::{Node, invalid};
use crate::text::field::{FieldError, FieldPath};

/// All annotations of an object together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Checks the key of a label.
pub(crate) fn validate_label_name(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    invalid(path, name, names::qualified_name(name), errors);
}

/// Checks keys and values of labels, all reported at `path`.
pub(crate) fn validate_labels<'a>(
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    for (key, value) in labels {
        validate_label_name(key, path, errors);
        invalid(path, value, names::label_value(value), errors);
    }
}

/// Checks keys and total size of annotations, all reported at `path`.
pub(crate) fn validate_annotations<'a>(
    annotations: impl Iterator<Item = (&'a str, &'a str)>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let mut size = 0;
    for (key, value) in annotations {
        invalid(path, key, names::qualified_name(&key.to_lowercase()), errors);
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path.clone(), ANNOTATIONS_LIMIT));
    }
}

/// The text members of an object member.
pub(crate) fn text_entries<'a>(
    node: &Node<'a>,
    name: &str,
) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    node.entries(name).filter_map(|(key, value)| value.as_str().map(|text| (key, text)))
}

/// Checks a label selector. `strict` also checks the syntax of the values of its expressions.
pub(crate) fn validate_label_selector(selector: &Node<'_>, strict: bool, errors: &mut Vec<FieldError>) {
    validate_labels(text_entries(selector, "matchLabels"), &selector.at("matchLabels"), errors);
    for requirement in selector.list("matchExpressions") {
        let values = requirement.texts("values");
        match requirement.text("operator") {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                requirement.at("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                requirement.at("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            operator => {
                let path = requirement.at("operator");
                errors.push(FieldError::invalid(path, operator, "not a valid selector operator"));
            }
        }
        validate_label_name(requirement.text("key"), &requirement.at("key"), errors);
        if strict {
            for (index, value) in values.into_iter().enumerate() {
                invalid(&requirement.at("values").index(index), value, names::label_value(value), errors);
            }
        }
    }
}

/// Texts as Go prints a map of them: `map[string]string{"a":"b"}`, sorted.
pub(crate) fn go_map<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let entries: BTreeMap<&str, &str> = entries.collect();
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| {
            format!("{}:{}", crate::text::json_patch::string(key), crate::text::json_patch::string(value))
        })
        .collect();
    format!("map[string]string{{{}}}", entries.join(", "))
}

/// The annotations of a template that Kubernetes itself reads.
pub(super) fn validate_pod_annotations(template: &Node<'_>, spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    let Some(metadata) = template.child("metadata") else { return };
    let path = template.at("annotations");
    let mut names: Option<std::collections::HashSet<&str>> = None;
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
                    Ok(tolerations) => super::scheduling::validate_tolerations(
                        tolerations
                            .iter()
                            .enumerate()
                            .map(|(index, value)| Node::new(value, path.child(key).index(index))),
                        errors,
                    ),
                }
            }
            _ if key == super::security::SECCOMP_POD_ANNOTATION
                || key.starts_with(super::security::SECCOMP_CONTAINER_ANNOTATIONS) =>
            {
                super::security::validate_seccomp_annotation(value, &path.child(key), errors);
            }
            _ => {
                let Some(container) = key.strip_prefix(APPARMOR) else { continue };
                let names = names.get_or_insert_with(|| container_names(spec));
                if !names.contains(container) {
                    errors.push(FieldError::invalid(path.key(key), container, "container not found"));
                }
                if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with("localhost/")
                {
                    let message =
                        format!("invalid AppArmor profile name: {}", crate::text::json_patch::string(value));
                    errors.push(FieldError::invalid(path.key(key), value, message));
                }
            }
        }
    }
}

fn container_names<'a>(spec: &Node<'a>) -> std::collections::HashSet<&'a str> {
    super::containers::every_container(spec).map(|container| container.text("name")).collect()
}
