//! Files made of Secrets, ConfigMaps, fields of the Pod, tokens and trust bundles.

use std::collections::HashSet;

use super::environment::{validate_field_reference, validate_resource_reference};
use super::limits::validate_relative_path;
use super::metadata::validate_label_selector;
use super::names;
use super::node::{Node, invalid, require_text};
use values::field::{FieldError, FieldPath};

const FIELD_PATHS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Checks the permission bits of files.
pub(super) fn validate_mode(source: &Node<'_>, name: &str, errors: &mut Vec<FieldError>) {
    if let Some(mode) = source.integer_option(name).filter(|mode| !(0..=0o777).contains(mode)) {
        let message = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid_value(source.at(name), mode, message));
    }
}

/// A relative path whose first part is not reserved for the kubelet's own files.
fn validate_file_path(path: &str, at: &FieldPath, errors: &mut Vec<FieldError>) {
    validate_relative_path(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(FieldError::invalid(at.clone(), path, "must not start with '..'"));
    }
}

/// Checks a key that becomes a file.
pub(super) fn validate_item(item: &Node<'_>, errors: &mut Vec<FieldError>) {
    require_text(item, "key", errors);
    require_text(item, "path", errors);
    validate_file_path(item.text("path"), &item.at("path"), errors);
    validate_mode(item, "mode", errors);
}

pub(super) fn validate_downward_api(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    validate_mode(source, "defaultMode", errors);
    for file in source.list("items") {
        // Kubernetes reports these files at their volume.
        validate_downward_file(&Node::new(file.value(), source.path()), errors);
    }
}

fn validate_downward_file(file: &Node<'_>, errors: &mut Vec<FieldError>) {
    require_text(file, "path", errors);
    validate_file_path(file.text("path"), &file.at("path"), errors);
    match (file.child("fieldRef"), file.child("resourceFieldRef")) {
        (Some(field), resource) => {
            validate_field_reference(&field, FIELD_PATHS, errors);
            if resource.is_some() {
                let message = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(file.path(), "resource", message));
            }
        }
        (None, Some(resource)) => validate_resource_reference(&resource, true, errors),
        (None, None) => {
            errors
                .push(FieldError::required(file.path(), "one of fieldRef and resourceFieldRef is required"));
        }
    }
    validate_mode(file, "mode", errors);
}

pub(super) fn validate_projected(volume: &Node<'_>, errors: &mut Vec<FieldError>) {
    validate_mode(volume, "defaultMode", errors);
    let mut paths = HashSet::new();
    for source in volume.list("sources") {
        let mut sources = 0;
        for name in ["secret", "configMap"] {
            let Some(projection) = source.child(name) else { continue };
            sources += 1;
            require_text(&projection, "name", errors);
            for item in projection.list("items") {
                validate_item(&item, errors);
                validate_unique(volume, item.text("path"), projection.text("name"), &mut paths, errors);
            }
        }
        if let Some(projection) = source.child("downwardAPI") {
            sources += 1;
            for file in projection.list("items") {
                validate_downward_file(&Node::new(file.value(), projection.path()), errors);
                validate_unique(volume, file.text("path"), file.text("path"), &mut paths, errors);
            }
        }
        if let Some(token) = source.child("serviceAccountToken") {
            sources += 1;
            validate_token(volume, &token, errors);
        }
        if let Some(bundle) = source.child("clusterTrustBundle") {
            sources += 1;
            validate_trust_bundle(&bundle, errors);
            validate_unique(volume, bundle.text("path"), bundle.text("path"), &mut paths, errors);
        }
        if sources > 1 {
            let message = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(source.path(), message));
        }
    }
}

fn validate_unique<'a>(
    volume: &Node<'_>,
    path: &'a str,
    shown: &str,
    paths: &mut HashSet<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    if !path.is_empty() && !paths.insert(path) {
        errors.push(FieldError::invalid(volume.path(), shown, "conflicting duplicate paths"));
    }
}

fn validate_token(volume: &Node<'_>, token: &Node<'_>, errors: &mut Vec<FieldError>) {
    let seconds = token.integer("expirationSeconds");
    let message = match seconds {
        ..600 => Some("may not specify a duration less than 10 minutes"),
        4_294_967_297.. => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(message) = message {
        errors.push(FieldError::invalid_value(token.at("expirationSeconds"), seconds, message));
    }
    // Kubernetes reports the token's path at its volume.
    match token.text("path") {
        "" => errors.push(FieldError::required(volume.at("path"), "")),
        path => validate_file_path(path, &volume.at("path"), errors),
    }
}

fn validate_trust_bundle(bundle: &Node<'_>, errors: &mut Vec<FieldError>) {
    match (bundle.text_option("name"), bundle.text_option("signerName")) {
        (Some(_), Some(_)) => errors.push(FieldError::invalid_value(
            bundle.path(),
            bundle.value(),
            "only one of name and signerName may be used",
        )),
        (Some(name), None) => {
            if name.is_empty() {
                errors.push(FieldError::required(bundle.at("name"), "must be a valid object name"));
            }
            // A bundle of a signer is named signer:name, with the signer's slash as a colon.
            let object = name.rsplit_once(':').map_or(name, |(_, object)| object);
            let messages = names::dns_subdomain(object).into_iter();
            let messages = messages.map(|message| format!("not a valid clustertrustbundlename: {message}"));
            invalid(&bundle.at("name"), name, messages, errors);
            if let Some(selector) = bundle.get("labelSelector") {
                let message = "labelSelector must be unset if name is specified";
                errors.push(FieldError::invalid_value(bundle.at("labelSelector"), selector, message));
            }
        }
        (None, Some(signer)) => {
            validate_signer(signer, &bundle.at("signerName"), errors);
            if let Some(selector) = bundle.child("labelSelector") {
                validate_label_selector(&selector, true, errors);
            }
        }
        (None, None) => {
            errors.push(FieldError::required(bundle.path(), "either name or signerName must be specified"));
        }
    }
    require_text(bundle, "path", errors);
    validate_file_path(bundle.text("path"), &bundle.at("path"), errors);
}

/// A signer is `domain/name`, the domain with at least one dot.
fn validate_signer(signer: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let parts = signer.split_once('/');
    let valid = parts.is_some_and(|(domain, name)| {
        domain.contains('.')
            && names::dns_subdomain(domain).is_empty()
            && names::dns_subdomain(name).is_empty()
    });
    if signer.is_empty() {
        errors.push(FieldError::required(path.clone(), "must be a valid signer name"));
    } else if !valid {
        let message = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path.clone(), signer, message));
    }
}
