//! Claim templates of ephemeral volumes.

use super::metadata::{text_entries, validate_annotations, validate_label_selector, validate_labels};
use super::names;
use super::node::{Node, invalid, quantity, require_text};
use super::resources::validate_quantity;
use values::field::FieldError;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn validate_claim_template(template: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(metadata) = template.child("metadata") {
        validate_annotations(text_entries(&metadata, "annotations"), &metadata.at("annotations"), errors);
        validate_labels(text_entries(&metadata, "labels"), &metadata.at("labels"), errors);
        let members = metadata.value().as_object().into_iter().flatten();
        for (name, value) in members {
            let unset = value.is_null() || value.as_str() == Some("");
            if !unset && name != "annotations" && name != "labels" {
                errors.push(FieldError::forbidden(metadata.at(name), "cannot be set"));
            }
        }
    }
    match template.child("spec") {
        Some(spec) => validate_claim(&spec, errors),
        None => validate_claim(&Node::new(&serde_json::Value::Null, template.at("spec")), errors),
    }
}

fn validate_claim(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    let modes = spec.texts("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(spec.at("accessModes"), "at least 1 access mode is required"));
    }
    if let Some(selector) = spec.child("selector") {
        validate_label_selector(&selector, true, errors);
    }
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(spec.at("accessModes"), mode, ACCESS_MODES));
    }
    let single = modes.contains(&"ReadWriteOncePod");
    if single && modes.iter().any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode)) {
        let message = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(spec.at("accessModes"), message));
    }
    let path = spec.at("resources").key("storage");
    let requests = spec.child("resources").and_then(|resources| resources.child("requests"));
    match requests.as_ref().and_then(|requests| requests.get("storage")).and_then(quantity) {
        None => errors.push(FieldError::required(path, "")),
        Some(storage) if storage.is_negative() || storage.is_zero() => {
            errors.push(FieldError::invalid(path, &storage.to_string(), "must be greater than zero"));
        }
        Some(storage) => validate_quantity("storage", &storage, &path, errors),
    }
    if let Some(class) = spec.text_option("storageClassName").filter(|class| !class.is_empty()) {
        invalid(&spec.at("storageClassName"), class, names::dns_subdomain(class), errors);
    }
    if let Some(mode) = spec.text_option("volumeMode").filter(|mode| !matches!(*mode, "Block" | "Filesystem"))
    {
        errors.push(FieldError::not_supported(spec.at("volumeMode"), mode, &["Block", "Filesystem"]));
    }
    for name in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.child(name) {
            validate_data_source(&source, errors);
        }
    }
    validate_equal_sources(spec, errors);
}

fn validate_data_source(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    require_text(source, "name", errors);
    require_text(source, "kind", errors);
    match source.text("apiGroup") {
        "" if source.text("kind") != "PersistentVolumeClaim" => errors.push(FieldError::invalid(
            source.path(),
            source.text("kind"),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        )),
        "" => {}
        group => invalid(&source.at("apiGroup"), group, names::dns_subdomain(group), errors),
    }
    let namespace = source.text("namespace");
    if !namespace.is_empty() {
        invalid(&source.at("namespace"), namespace, names::dns_label(namespace), errors);
    }
}

fn validate_equal_sources(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    let (Some(old), Some(new)) = (spec.child("dataSource"), spec.child("dataSourceRef")) else { return };
    let equal =
        ["apiGroup", "kind", "name"].iter().all(|name| old.text_option(name) == new.text_option(name));
    let message = if !new.text("namespace").is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if !equal {
        "must match dataSourceRef"
    } else {
        return;
    };
    errors.push(FieldError::invalid_value(spec.path(), old.path(), message));
}
