//! Requests and limits.

use std::collections::{BTreeSet, HashSet};

use super::names;
use super::node::{Node, invalid, quantity};
use values::field::{FieldError, FieldPath};
use values::quantity::Quantity;

const HUGE_PAGES: &str = "hugepages-";
/// Resources that are counted in whole numbers.
const OBJECT_COUNTS: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
/// Further names that need no prefix.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Checks `resources` of a container.
pub(super) fn validate_requirements(
    resources: &Node<'_>,
    pod_claims: &BTreeSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    for list in ["limits", "requests"] {
        for (name, value) in resources.entries(list) {
            let path = resources.at(list).key(name);
            validate_container_resource_name(name, &path, errors);
            if let Some(value) = quantity(value) {
                validate_quantity(name, &value, &path, errors);
                if list == "requests" {
                    validate_against_limit(resources, name, &value, errors);
                }
            }
        }
    }
    let names = || resources.entries("limits").chain(resources.entries("requests")).map(|(name, _)| name);
    if names().any(|name| name.starts_with(HUGE_PAGES))
        && !names().any(|name| name == "cpu" || name == "memory")
    {
        errors.push(FieldError::forbidden(resources.path(), "HugePages require cpu or memory"));
    }
    validate_claims(resources, pod_claims, errors);
}

fn validate_against_limit(
    resources: &Node<'_>,
    name: &str,
    request: &Quantity,
    errors: &mut Vec<FieldError>,
) {
    let path = resources.at("requests");
    let limit = resources.get("limits").and_then(|limits| limits.get(name)).and_then(quantity);
    match limit {
        Some(limit) if *request != limit && !is_overcommit_allowed(name) => {
            let message = format!("must be equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(path, &request.to_string(), message));
        }
        Some(limit) if *request > limit => {
            let message = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(path, &request.to_string(), message));
        }
        None if !is_overcommit_allowed(name) => errors.push(FieldError::required(
            resources.at("limits"),
            "Limit must be set for non overcommitable resources",
        )),
        _ => {}
    }
}

/// Checks the name of a resource, wherever it is used.
pub(super) fn validate_resource_name(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let messages = names::qualified_name(name);
    let standard = name.contains('/')
        || STANDARD.contains(&name)
        || OBJECT_COUNTS.contains(&name)
        || name.starts_with(HUGE_PAGES)
        || name.starts_with("requests.hugepages-");
    if messages.is_empty() && !standard {
        errors.push(FieldError::invalid(
            path.clone(),
            name,
            "must be a standard resource type or fully qualified",
        ));
    }
    invalid(path, name, messages, errors);
}

fn validate_container_resource_name(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    validate_resource_name(name, path, errors);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with(HUGE_PAGES) {
            errors.push(FieldError::invalid(
                path.clone(),
                name,
                "must be a standard resource for containers",
            ));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(FieldError::invalid(
            path.clone(),
            name,
            "doesn't follow extended resource name standard",
        ));
    }
}

/// Checks the quantity of a resource.
pub(super) fn validate_quantity(
    name: &str,
    value: &Quantity,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if value.is_negative() {
        let message = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.clone(), &value.to_string(), message));
    }
    if (OBJECT_COUNTS.contains(&name) || is_extended(name)) && value.milli() % 1000 != 0 {
        errors.push(FieldError::invalid(path.clone(), &value.to_string(), "must be an integer"));
    }
}

fn validate_claims(resources: &Node<'_>, pod_claims: &BTreeSet<&str>, errors: &mut Vec<FieldError>) {
    // A claim as a whole, single requests of it, and claims of which single requests are named.
    let mut seen = HashSet::new();
    let mut partly = HashSet::new();
    for claim in resources.list("claims") {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.push(FieldError::required(claim.path(), ""));
        } else if seen.contains(&(name, "")) || (request.is_empty() && partly.contains(name)) {
            errors.push(FieldError::duplicate(claim.path(), name));
        } else {
            if !request.is_empty() {
                partly.insert(name);
                invalid(&claim.at("request"), request, names::dns_label(request), errors);
            }
            if !seen.insert((name, request)) {
                errors.push(FieldError::duplicate(claim.path(), &format!("{name}/{request}")));
            }
        }
        if !pod_claims.contains(name) {
            errors.push(FieldError::not_found(claim.path(), name));
        }
    }
}
