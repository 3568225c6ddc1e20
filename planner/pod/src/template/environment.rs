//! Environment variables and what they are taken from.

use super::names;
use super::node::{Node, invalid, quantity, require_text};
use values::field::{FieldError, FieldPath};
use values::quantity::Quantity;

const FIELD_PATHS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Paths that the API can convert, whether or not they may be used.
const CONVERTIBLE_PATHS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn validate_environment(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    for variable in container.list("env") {
        match variable.text("name") {
            "" => errors.push(FieldError::required(variable.at("name"), "")),
            name => invalid(&variable.at("name"), name, names::environment_name(name), errors),
        }
        if let Some(source) = variable.child("valueFrom") {
            validate_value_source(&source, variable.text("value"), errors);
        }
    }
}

fn validate_value_source(source: &Node<'_>, value: &str, errors: &mut Vec<FieldError>) {
    let mut sources = 0;
    if let Some(reference) = source.child("fieldRef") {
        sources += 1;
        validate_field_reference(&reference, FIELD_PATHS, errors);
    }
    if let Some(reference) = source.child("resourceFieldRef") {
        sources += 1;
        validate_resource_reference(&reference, false, errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = source.child(name) {
            sources += 1;
            let object = reference.text("name");
            invalid(&reference.at("name"), object, names::dns_subdomain(object), errors);
            match reference.text("key") {
                "" => errors.push(FieldError::required(reference.at("key"), "")),
                key => invalid(&reference.at("key"), key, names::config_key(key), errors),
            }
        }
    }
    let message = match sources {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        _ if !value.is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(source.path(), "", message));
}

pub(super) fn validate_environment_sources(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    for source in container.list("envFrom") {
        match source.text("prefix") {
            "" => {}
            prefix => invalid(&source.at("prefix"), prefix, names::environment_name(prefix), errors),
        }
        let mut sources = 0;
        for name in ["configMapRef", "secretRef"] {
            if let Some(reference) = source.child(name) {
                sources += 1;
                match reference.text("name") {
                    "" => errors.push(FieldError::required(reference.at("name"), "")),
                    // A trailing dash is tolerated here, as where it prefixes a generated name.
                    object => {
                        let trimmed =
                            object.strip_suffix('-').filter(|rest| !rest.is_empty()).unwrap_or(object);
                        invalid(&reference.at("name"), object, names::dns_subdomain(trimmed), errors);
                    }
                }
            }
        }
        let message = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(container.at("envFrom"), "", message));
    }
}

/// `metadata.labels['key']` as its path and its key.
pub fn split_subscript(field_path: &str) -> Option<(&str, &str)> {
    let (path, key) = field_path.strip_suffix("']")?.split_once("['")?;
    if path.is_empty() { None } else { Some((path, key)) }
}

/// Why the API can't convert a field path of a Pod.
pub(crate) fn conversion_problem(api_version: &str, field_path: &str) -> Option<String> {
    if api_version != "v1" {
        return Some(format!("unsupported pod version: {api_version}"));
    }
    match split_subscript(field_path) {
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {field_path}")),
        None if CONVERTIBLE_PATHS.contains(&field_path) || field_path == "spec.host" => None,
        None => Some(format!("field label not supported: {field_path}")),
    }
}

pub(super) fn validate_field_reference(
    reference: &Node<'_>,
    supported: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let (api_version, field_path) = (reference.text("apiVersion"), reference.text("fieldPath"));
    for (value, name) in [(api_version, "apiVersion"), (field_path, "fieldPath")] {
        if value.is_empty() {
            errors.push(FieldError::required(reference.at(name), ""));
            return;
        }
    }
    if let Some(problem) = conversion_problem(api_version, field_path) {
        let message = format!("error converting fieldPath: {problem}");
        errors.push(FieldError::invalid(reference.at("fieldPath"), field_path, message));
        return;
    }
    // An old name of a field that is still accepted.
    let field_path = if field_path == "spec.host" { "spec.nodeName" } else { field_path };
    match split_subscript(field_path) {
        Some((path, key)) => validate_subscript(path, key, &reference.path(), errors),
        None if supported.contains(&field_path) => {}
        None => errors.push(FieldError::not_supported(reference.at("fieldPath"), field_path, supported)),
    }
}

/// Checks the key of a label or annotation; annotations may be in upper case.
pub fn validate_subscript(field: &str, key: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let lower = key.to_lowercase();
    let key = if field == "metadata.annotations" { lower.as_str() } else { key };
    invalid(path, key, names::qualified_name(key), errors);
}

/// `in_volume`: a volume names the container, a variable means its own.
pub(super) fn validate_resource_reference(
    reference: &Node<'_>,
    in_volume: bool,
    errors: &mut Vec<FieldError>,
) {
    let resource = reference.text("resource");
    let huge_pages =
        ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if in_volume && reference.text("containerName").is_empty() {
        errors.push(FieldError::required(reference.at("containerName"), ""));
    } else if resource.is_empty() {
        require_text(reference, "resource", errors);
    } else if !RESOURCES.contains(&resource) && !huge_pages {
        errors.push(FieldError::not_supported(reference.at("resource"), resource, RESOURCES));
    }
    let Some(divisor) = reference.get("divisor").and_then(quantity).filter(|divisor| !divisor.is_zero())
    else {
        return;
    };
    if let Some(message) = divisor_problem(resource, huge_pages, &divisor) {
        errors.push(FieldError::invalid(reference.at("divisor"), resource, message));
    }
}

fn divisor_problem(resource: &str, huge_pages: bool, divisor: &Quantity) -> Option<String> {
    let divisor = divisor.to_string();
    let noun = match resource {
        "limits.cpu" | "requests.cpu" => {
            let valid = divisor == "1m" || divisor == "1";
            return (!valid)
                .then(|| "only divisor's values 1m and 1 are supported with the cpu resource".to_owned());
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge_pages => "hugepages",
        _ => return None,
    };
    let valid = BYTE_DIVISORS.contains(&divisor.as_str());
    let values = BYTE_DIVISORS.join(", ");
    (!valid).then(|| format!("only divisor's values {values} are supported with the {noun} resource"))
}
