//! Labels, annotations and label selectors.

use std::collections::BTreeMap;

use api::meta::LabelSelector;
use serde_json::Value;

use super::names;
use super::node::{Node, invalid};
use values::field::{FieldError, FieldPath};

/// All annotations of an object together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Checks the key of a label.
pub(crate) fn validate_label_name(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    invalid(path, name, names::qualified_name(name), errors);
}

/// Checks keys and values of labels, all reported at `path`.
pub fn validate_labels<'a>(
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
pub fn validate_annotations<'a>(
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
pub fn text_entries<'a>(node: &Node<'a>, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    node.entries(name).filter_map(|(key, value)| value.as_str().map(|text| (key, text)))
}

/// Checks name, labels and annotations of an object.
pub fn validate_metadata(object: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("metadata");
    let Some(value) = object.get("metadata") else { return };
    let metadata = Node::new(value, path.clone());
    let generated = metadata.text("generateName");
    if !generated.is_empty() {
        let stem = generated.trim_end_matches('-');
        invalid(&path.child("generateName"), generated, names::dns_subdomain(stem), errors);
    }
    match metadata.text("name") {
        "" if generated.is_empty() => {
            errors.push(FieldError::required(path.child("name"), "name or generateName is required"));
        }
        "" => {}
        name => invalid(&path.child("name"), name, names::dns_subdomain(name), errors),
    }
    validate_labels(text_entries(&metadata, "labels"), &path.child("labels"), errors);
    validate_annotations(text_entries(&metadata, "annotations"), &path.child("annotations"), errors);
}

/// Checks a label selector. `strict` also checks the syntax of the values of its expressions.
pub fn validate_label_selector(selector: &Node<'_>, strict: bool, errors: &mut Vec<FieldError>) {
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

/// Checks the selector that an object has at `path`, the values of its expressions too.
pub fn validate_selector(selector: &LabelSelector, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let value = serde_json::to_value(selector).unwrap_or_default();
    validate_label_selector(&Node::new(&value, path.clone()), true, errors);
}

/// `metadata.labels['key']` as its path and its key.
pub fn split_subscript(field_path: &str) -> Option<(&str, &str)> {
    let (path, key) = field_path.strip_suffix("']")?.split_once("['")?;
    if path.is_empty() { None } else { Some((path, key)) }
}

/// Checks the key of a label or annotation; annotations may be in upper case.
pub fn validate_subscript(field: &str, key: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let lower = key.to_lowercase();
    let key = if field == "metadata.annotations" { lower.as_str() } else { key };
    invalid(path, key, names::qualified_name(key), errors);
}

/// Texts as Go prints a map of them: `map[string]string{"a":"b"}`, sorted.
pub(crate) fn go_map<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let entries: BTreeMap<&str, &str> = entries.collect();
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| {
            format!("{}:{}", values::json_patch::string(key), values::json_patch::string(value))
        })
        .collect();
    format!("map[string]string{{{}}}", entries.join(", "))
}
