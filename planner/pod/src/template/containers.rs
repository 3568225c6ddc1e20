//! Containers and their volumes: what every release of Kubernetes refuses. All other rules are those of the cluster.

use std::collections::HashSet;

use super::limits::validate_range;
use super::names;
use super::node::{Node, invalid, quantity, require_one_of, require_text};
use super::volumes::validate_volumes;
use values::field::FieldError;

/// The fields of containers that ephemeral ones may not have.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Checks the containers and init containers of a Pod, and its volumes on the way.
pub(super) fn validate_containers(spec: &Node<'_>, allow_privileged: bool, errors: &mut Vec<FieldError>) {
    let volumes = validate_volumes(spec, errors);
    let mut names = HashSet::new();
    for container in ["containers", "initContainers"].iter().flat_map(|list| spec.list(list)) {
        validate_container(&container, allow_privileged, &mut names, errors);
        validate_mounts(&container, &volumes, errors);
        validate_requests(&container, errors);
    }
}

/// Checks ephemeral containers of a Pod that is not known: nothing is said about its volumes and containers.
pub(super) fn validate_ephemeral_containers(
    holder: &Node<'_>,
    allow_privileged: bool,
    errors: &mut Vec<FieldError>,
) {
    let mut names = HashSet::new();
    for container in holder.list("ephemeralContainers") {
        validate_container(&container, allow_privileged, &mut names, errors);
        validate_image_padding(&container, errors);
        // Nobody else judges these before a Pod gets them.
        require_one_of(&container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], errors);
        require_one_of(&container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], errors);
        let fields = container.value().as_object().into_iter().flatten();
        for (field, value) in fields.filter(|(field, _)| NOT_EPHEMERAL.contains(&field.as_str())) {
            let is_unset = value.is_null() || (field == "resources" && container.count(field) == 0);
            if !is_unset {
                errors.push(FieldError::forbidden(
                    container.at(field),
                    "cannot be set for an Ephemeral Container",
                ));
            }
        }
        for mount in container.list("volumeMounts") {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    errors.push(FieldError::forbidden(
                        mount.at(field),
                        "cannot be set for an Ephemeral Container",
                    ));
                }
            }
        }
    }
}

/// Only Pods refuse an image with space around it; templates may have one.
pub(super) fn validate_image_padding(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    let image = container.text("image");
    if image.len() != image.trim().len() {
        let message = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(container.at("image"), image, message));
    }
}

/// What is checked of containers of all sorts. `names` are those of the containers before it.
fn validate_container<'a>(
    container: &Node<'a>,
    allow_privileged: bool,
    names: &mut HashSet<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    let name = container.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(container.at("name"), ""));
    } else {
        invalid(&container.at("name"), name, names::dns_label(name), errors);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(container.at("name"), name));
        }
    }
    require_text(container, "image", errors);
    for port in container.list("ports") {
        match port.integer("containerPort") {
            0 => errors.push(FieldError::required(port.at("containerPort"), "")),
            number => validate_range(number, 1..=65535, &port.at("containerPort"), errors),
        }
    }
    for variable in container.list("env") {
        require_text(&variable, "name", errors);
    }
    let security = container.child("securityContext");
    if let Some(security) = security.filter(|security| !allow_privileged && security.is_true("privileged")) {
        errors.push(FieldError::forbidden(security.at("privileged"), "disallowed by cluster policy"));
    }
}

fn validate_mounts(container: &Node<'_>, volumes: &HashSet<&str>, errors: &mut Vec<FieldError>) {
    let mut paths = HashSet::new();
    for mount in container.list("volumeMounts").chain(container.list("volumeDevices")) {
        let name = mount.text("name");
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(mount.at("name"), name));
        }
    }
    for mount in container.list("volumeMounts") {
        require_text(&mount, "mountPath", errors);
        let path = mount.text("mountPath");
        if !paths.insert(path) {
            errors.push(FieldError::invalid(mount.at("mountPath"), path, "must be unique"));
        }
    }
}

fn validate_requests(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    let Some(resources) = container.child("resources") else { return };
    for (name, request) in resources.entries("requests") {
        let limit = resources.get("limits").and_then(|limits| limits.get(name)).and_then(quantity);
        if let (Some(request), Some(limit)) = (quantity(request), limit)
            && request > limit
        {
            let message = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(resources.at("requests"), &request.to_string(), message));
        }
    }
}
