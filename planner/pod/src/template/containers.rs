//! Containers and init containers: names, images, ports, mounts and devices.

use std::collections::{HashMap, HashSet};

use super::limits::{validate_range, validate_relative_path};
use super::node::{Node, invalid, require_one_of, require_text};
use super::pod_context::{PodContext, VolumeUse};
use super::{environment, names, probes, resources, security};
use values::field::{FieldError, FieldPath};

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
/// The fields that ephemeral containers may have.
const EPHEMERAL_FIELDS: [&str; 16] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "envFrom",
    "env",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
];
const PORTS: std::ops::RangeInclusive<i64> = 1..=65535;

/// True for an init container that keeps running beside the others.
fn is_restartable(container: &Node<'_>) -> bool {
    container.text("restartPolicy") == "Always"
}

pub(super) fn validate_containers(spec: &Node<'_>, context: &PodContext<'_>, errors: &mut Vec<FieldError>) {
    if spec.count("containers") == 0 {
        errors.push(FieldError::required(spec.at("containers"), ""));
    }
    let mut names = HashSet::new();
    let mut host_ports = HashSet::new();
    let mut port_errors = Vec::new();
    for container in spec.list("containers") {
        validate_container(&container, context, errors);
        if !names.insert(container.text("name")) {
            errors.push(FieldError::duplicate(container.at("name"), container.text("name")));
        }
        probes::validate_hooks_and_probes(&container, context.grace_period, errors);
        if container.has("restartPolicy") {
            errors.push(FieldError::forbidden(
                container.at("restartPolicy"),
                "may not be set for non-init containers",
            ));
        }
        validate_host_ports(&container, &container.path(), &mut host_ports, &mut port_errors);
    }
    errors.append(&mut port_errors);
}

pub(super) fn validate_init_containers(
    spec: &Node<'_>,
    context: &PodContext<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut names: HashSet<&str> = spec.list("containers").map(|container| container.text("name")).collect();
    for container in spec.list("initContainers") {
        validate_container(&container, context, errors);
        match container.text_option("restartPolicy") {
            None | Some("Always") => {}
            Some(policy) => {
                errors.push(FieldError::not_supported(container.at("restartPolicy"), policy, &["Always"]));
            }
        }
        let name = container.text("name");
        if names.contains(name) {
            errors.push(FieldError::duplicate(container.at("name"), name));
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Kubernetes checks each init container alone and reports it as the first one.
        validate_host_ports(&container, &spec.at("initContainers").index(0), &mut HashSet::new(), errors);
        if is_restartable(&container) {
            probes::validate_hooks_and_probes(&container, context.grace_period, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.has(field) {
                    errors.push(FieldError::forbidden(
                        container.at(field),
                        "may not be set for init containers without restartPolicy=Always",
                    ));
                }
            }
        }
        if container.count("resizePolicy") > 0 {
            let shown = container.get("resizePolicy").map(ToString::to_string).unwrap_or_default();
            let message = "must not be set for init containers";
            errors.push(FieldError::invalid_value(container.at("resizePolicy"), shown, message));
        }
    }
}

/// Checks ephemeral containers of a Pod that is not known: nothing is said about its volumes and containers.
pub(super) fn validate_ephemeral_containers(
    holder: &Node<'_>,
    context: &PodContext<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut names = HashSet::new();
    for container in holder.list("ephemeralContainers") {
        validate_basics(&container, errors);
        let name = container.text("name");
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(container.at("name"), name));
        }
        validate_image_padding(&container, errors);
        require_one_of(&container, "imagePullPolicy", PULL_POLICIES, errors);
        if let Some(security_context) = container.child("securityContext") {
            security::validate_container_security(&security_context, context, errors);
        }
        let fields = container.value().as_object().into_iter().flatten();
        for (field, value) in fields.filter(|(field, _)| *field != "targetContainerName") {
            let is_unset = value.is_null() || (field == "resources" && container.count(field) == 0);
            if !is_unset && !EPHEMERAL_FIELDS.contains(&field.as_str()) {
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
pub(super) fn validate_image_paddings(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    for container in spec.list("containers").chain(spec.list("initContainers")) {
        validate_image_padding(&container, errors);
    }
}

fn validate_image_padding(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    let image = container.text("image");
    if image.len() != image.trim().len() {
        let message = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(container.at("image"), image, message));
    }
}

/// With the host's network a host port must be the container's port.
pub(super) fn validate_host_network_ports(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    for port in spec.list("containers").flat_map(|container| container.list("ports")) {
        let host_port = port.integer("hostPort");
        if host_port != 0 && host_port != port.integer("containerPort") {
            let message = "must match `containerPort` when `hostNetwork` is true";
            errors.push(FieldError::invalid_value(port.at("hostPort"), host_port, message));
        }
    }
}

/// What is checked of containers of all sorts, in this order.
fn validate_basics(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    match container.text("name") {
        "" => errors.push(FieldError::required(container.at("name"), "")),
        name => invalid(&container.at("name"), name, names::dns_label(name), errors),
    }
    require_text(container, "image", errors);
    let policies = &["File", "FallbackToLogsOnError"];
    require_one_of(container, "terminationMessagePolicy", policies, errors);
    validate_ports(container, errors);
    environment::validate_environment(container, errors);
    environment::validate_environment_sources(container, errors);
}

fn validate_container(container: &Node<'_>, context: &PodContext<'_>, errors: &mut Vec<FieldError>) {
    validate_basics(container, errors);
    validate_mounts(container, context, errors);
    validate_devices(container, context, errors);
    require_one_of(container, "imagePullPolicy", PULL_POLICIES, errors);
    if let Some(requirements) = container.child("resources") {
        resources::validate_requirements(&requirements, &context.resource_claims, errors);
    }
    validate_resize_policy(container, context.restart_policy, errors);
    if let Some(security_context) = container.child("securityContext") {
        security::validate_container_security(&security_context, context, errors);
    }
}

fn validate_ports(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut names = HashSet::new();
    for port in container.list("ports") {
        let name = port.text("name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(port.at("name"), name));
            }
            invalid(&port.at("name"), name, messages, errors);
        }
        match port.integer("containerPort") {
            0 => errors.push(FieldError::required(port.at("containerPort"), "")),
            number => validate_range(number, PORTS, &port.at("containerPort"), errors),
        }
        match port.integer("hostPort") {
            0 => {}
            number => validate_range(number, PORTS, &port.at("hostPort"), errors),
        }
        require_one_of(&port, "protocol", PROTOCOLS, errors);
    }
}

fn validate_host_ports<'a>(
    container: &Node<'a>,
    path: &FieldPath,
    seen: &mut HashSet<(&'a str, &'a str, i64)>,
    errors: &mut Vec<FieldError>,
) {
    for (index, port) in container.list("ports").enumerate() {
        let key = (port.text("protocol"), port.text("hostIP"), port.integer("hostPort"));
        if key.2 != 0 && !seen.insert(key) {
            let path = path.child("ports").index(index).child("hostPort");
            errors.push(FieldError::duplicate(path, &format!("{}/{}/{}", key.0, key.1, key.2)));
        }
    }
}

/// The paths by name, and all of those paths.
fn paths_by_name<'a>(container: &Node<'a>, list: &str, path: &str) -> (HashSet<&'a str>, HashSet<&'a str>) {
    let by_name: HashMap<&str, &str> =
        container.list(list).map(|entry| (entry.text("name"), entry.text(path))).collect();
    (by_name.keys().copied().collect(), by_name.values().copied().collect())
}

fn validate_mounts(container: &Node<'_>, context: &PodContext<'_>, errors: &mut Vec<FieldError>) {
    let (device_names, device_paths) = paths_by_name(container, "volumeDevices", "devicePath");
    let privileged =
        container.child("securityContext").is_some_and(|security| security.is_true("privileged"));
    // Some rules are reported at the list, without an index.
    let list = container.at("volumeMounts");
    let mut paths = HashSet::new();
    for mount in container.list("volumeMounts") {
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        require_text(&mount, "name", errors);
        if !context.volumes.contains_key(name) {
            errors.push(FieldError::not_found(mount.at("name"), name));
        }
        require_text(&mount, "mountPath", errors);
        if !paths.insert(path) {
            errors.push(FieldError::invalid(mount.at("mountPath"), path, "must be unique"));
        }
        if device_names.contains(name) {
            errors.push(FieldError::invalid(
                mount.at("name"),
                name,
                "must not already exist in volumeDevices",
            ));
        }
        if device_paths.contains(path) {
            let message = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(mount.at("mountPath"), path, message));
        }
        let (sub_path, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        validate_relative_path(sub_path, &list.child("subPath"), errors);
        if !expression.is_empty() && !sub_path.is_empty() {
            let message = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(mount.at("subPathExpr"), expression, message));
        }
        validate_relative_path(expression, &list.child("subPathExpr"), errors);
        validate_mount_modes(&mount, &list, privileged, errors);
    }
}

fn validate_mount_modes(mount: &Node<'_>, list: &FieldPath, privileged: bool, errors: &mut Vec<FieldError>) {
    let propagation = mount.text_option("mountPropagation");
    let path = list.child("mountPropagation");
    match propagation {
        None | Some("HostToContainer" | "None") => {}
        Some("Bidirectional") if privileged => {}
        Some("Bidirectional") => errors.push(FieldError::forbidden(
            path,
            "Bidirectional mount propagation is available only to privileged containers",
        )),
        Some(mode) => {
            errors.push(FieldError::not_supported(path, mode, &["Bidirectional", "HostToContainer", "None"]));
        }
    }
    let path = list.child("recursiveReadOnly");
    match mount.text_option("recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.is_true("readOnly") {
                errors
                    .push(FieldError::forbidden(path.clone(), "may only be specified when readOnly is true"));
            }
            if propagation.is_some_and(|mode| mode != "None") {
                let message = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(path, message));
            }
        }
        Some(mode) => {
            errors.push(FieldError::not_supported(path, mode, &["Disabled", "Enabled", "IfPossible"]));
        }
    }
}

fn validate_devices(container: &Node<'_>, context: &PodContext<'_>, errors: &mut Vec<FieldError>) {
    let (mount_names, mount_paths) = paths_by_name(container, "volumeMounts", "mountPath");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for device in container.list("volumeDevices") {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        let (name_path, device_path) = (device.at("name"), device.at("devicePath"));
        require_text(&device, "name", errors);
        if names.contains(name) {
            errors.push(FieldError::invalid(name_path.clone(), name, "must be unique"));
        }
        match context.volumes.get(name) {
            None => errors.push(FieldError::not_found(name_path.clone(), name)),
            Some(VolumeUse::Block) => {}
            Some(VolumeUse::Files) => errors.push(FieldError::invalid(
                name_path.clone(),
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )),
        }
        require_text(&device, "devicePath", errors);
        if paths.contains(path) {
            errors.push(FieldError::invalid(device_path.clone(), path, "must be unique"));
        }
        if path.split('/').any(|part| part == "..") {
            errors.push(FieldError::invalid(device_path.clone(), path, "can not contain backsteps ('..')"));
        } else {
            paths.insert(path);
        }
        if mount_names.contains(name) {
            errors.push(FieldError::invalid(name_path, name, "must not already exist in volumeMounts"));
        }
        if mount_paths.contains(path) {
            let message = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(device_path, path, message));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn validate_resize_policy(container: &Node<'_>, pod_restart_policy: &str, errors: &mut Vec<FieldError>) {
    let path = container.at("resizePolicy");
    let mut seen = HashSet::new();
    for policy in container.list("resizePolicy") {
        let resource = policy.text("resourceName");
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(policy.path(), resource));
        }
        let restart_policy = policy.text("restartPolicy");
        for (value, supported) in
            [(resource, ["cpu", "memory"]), (restart_policy, ["NotRequired", "RestartContainer"])]
        {
            if value.is_empty() {
                errors.push(FieldError::required(path.clone(), ""));
            } else if !supported.contains(&value) {
                errors.push(FieldError::not_supported(path.clone(), value, &supported));
            }
        }
        if pod_restart_policy == "Never" && restart_policy != "NotRequired" {
            let message = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path.clone(), restart_policy, message));
        }
    }
}
