//! Where Pods may run: node selectors, affinity, tolerations and topology spread.

use std::collections::{HashMap, HashSet};

use super::metadata::{validate_label_name, validate_label_selector};
use super::names;
use super::node::{Node, invalid};
use values::field::{FieldError, FieldPath};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn validate_affinity(affinity: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(node_affinity) = affinity.child("nodeAffinity") {
        validate_node_affinity(&node_affinity, errors);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = affinity.child(name) else { continue };
        for term in affinity.list(REQUIRED) {
            validate_pod_term(&term, errors);
        }
        for weighted in affinity.list(PREFERRED) {
            validate_weight(&weighted, errors);
            let empty = serde_json::Value::Null;
            let term = weighted.child("podAffinityTerm");
            validate_pod_term(
                &term.unwrap_or_else(|| Node::new(&empty, weighted.at("podAffinityTerm"))),
                errors,
            );
        }
    }
}

fn validate_weight(term: &Node<'_>, errors: &mut Vec<FieldError>) {
    let weight = term.integer("weight");
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid_value(term.at("weight"), weight, "must be in the range 1-100"));
    }
}

fn validate_node_affinity(affinity: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(required) = affinity.child(REQUIRED) {
        if required.count("nodeSelectorTerms") == 0 {
            let message = "must have at least one node selector term";
            errors.push(FieldError::required(required.at("nodeSelectorTerms"), message));
        }
        for term in required.list("nodeSelectorTerms") {
            validate_node_term(&term, true, errors);
        }
    }
    for term in affinity.list(PREFERRED) {
        validate_preferred_node_term(&term, errors);
    }
}

/// Checks an element of `preferredDuringSchedulingIgnoredDuringExecution` for nodes.
pub fn validate_preferred_node_term(term: &Node<'_>, errors: &mut Vec<FieldError>) {
    validate_weight(term, errors);
    if let Some(preference) = term.child("preference") {
        validate_node_term(&preference, false, errors);
    }
}

/// Checks a node selector term. `strict` also checks the syntax of label values.
pub fn validate_node_term(term: &Node<'_>, strict: bool, errors: &mut Vec<FieldError>) {
    for requirement in term.list("matchExpressions") {
        validate_node_requirement(&requirement, strict, errors);
    }
    for requirement in term.list("matchFields") {
        validate_node_field(&requirement, errors);
    }
}

fn validate_node_requirement(requirement: &Node<'_>, strict: bool, errors: &mut Vec<FieldError>) {
    let values = requirement.texts("values");
    let path = requirement.at("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(FieldError::required(
                path.clone(),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            path.clone(),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "Gt" | "Lt" if values.len() != 1 => errors.push(FieldError::required(
            path.clone(),
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        operator => {
            let message = "not a valid selector operator";
            errors.push(FieldError::invalid(requirement.at("operator"), operator, message));
        }
    }
    validate_label_name(requirement.text("key"), &requirement.at("key"), errors);
    if strict {
        for (index, value) in values.into_iter().enumerate() {
            invalid(&path.index(index), value, names::label_value(value), errors);
        }
    }
}

fn validate_node_field(requirement: &Node<'_>, errors: &mut Vec<FieldError>) {
    let values = requirement.texts("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => errors.push(FieldError::required(
            requirement.at("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )),
        operator => {
            let message = "not a valid selector operator";
            errors.push(FieldError::invalid(requirement.at("operator"), operator, message));
        }
    }
    match requirement.text("key") {
        "metadata.name" => {
            for (index, value) in values.into_iter().enumerate() {
                invalid(&requirement.at("values").index(index), value, names::dns_subdomain(value), errors);
            }
        }
        key => errors.push(FieldError::invalid(requirement.at("key"), key, "not a valid field selector key")),
    }
}

fn validate_pod_term(term: &Node<'_>, errors: &mut Vec<FieldError>) {
    for name in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = term.child(name) {
            validate_label_selector(&selector, false, errors);
        }
    }
    for namespace in term.texts("namespaces") {
        invalid(&term.at("namespace"), namespace, names::dns_label(namespace), errors);
    }
    validate_label_keys(term, errors);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(term.at("topologyKey"), "can not be empty"));
    }
    validate_label_name(key, &term.at("topologyKey"), errors);
}

/// `matchLabelKeys` and `mismatchLabelKeys` of a Pod affinity term.
fn validate_label_keys(term: &Node<'_>, errors: &mut Vec<FieldError>) {
    let selector = term.child("labelSelector");
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        validate_keys(&term.texts(name), &term.at(name), selector.is_some(), errors);
    }
    let keys = term.texts("matchLabelKeys");
    if let Some(selector) = selector {
        let positions: HashMap<&str, usize> =
            keys.iter().enumerate().map(|(index, key)| (*key, index)).collect();
        let mut selected: HashSet<&str> = selector.entries("matchLabels").map(|(key, _)| key).collect();
        for requirement in selector.list("matchExpressions") {
            let key = requirement.text("key");
            if let Some(position) = positions.get(key).filter(|_| selected.contains(key)) {
                let message = "exists in both matchLabelKeys and labelSelector";
                errors.push(FieldError::invalid(term.path().index(*position), key, message));
            }
            selected.insert(key);
        }
    }
    let mismatch: HashSet<&str> = term.texts("mismatchLabelKeys").into_iter().collect();
    for (index, key) in keys.iter().enumerate().filter(|(_, key)| mismatch.contains(**key)) {
        let message = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(FieldError::invalid(term.at("matchLabelKeys").index(index), key, message));
    }
}

fn validate_keys(keys: &[&str], path: &FieldPath, has_selector: bool, errors: &mut Vec<FieldError>) {
    if !keys.is_empty() && !has_selector {
        let message = "must not be specified when labelSelector is not set";
        errors.push(FieldError::forbidden(path.clone(), message));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        validate_label_name(key, &path.index(index), errors);
    }
}

/// Validates tolerations as Kubernetes does.
pub fn validate_tolerations<'a>(tolerations: impl Iterator<Item = Node<'a>>, errors: &mut Vec<FieldError>) {
    for toleration in tolerations {
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        let path = toleration.at("operator");
        if !key.is_empty() {
            validate_label_name(key, &toleration.at("key"), errors);
        } else if operator != "Exists" {
            let message =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(path.clone(), operator, message));
        }
        let effect = toleration.text("effect");
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            let message = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(toleration.at("effect"), effect, message));
        }
        let value = toleration.text("value");
        match operator {
            "Equal" | "" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    errors.push(FieldError::invalid(path, value, messages.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let message = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(path, value, message));
            }
            "Exists" => {}
            _ => errors.push(FieldError::not_supported(path, operator, &["Equal", "Exists"])),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(FieldError::not_supported(toleration.at("effect"), effect, supported));
        }
    }
}

pub(super) fn validate_topology_spread(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    // The last constraint of a pair is not the one that is reported.
    let mut last: HashMap<(&str, &str), usize> = HashMap::new();
    for (index, constraint) in spec.list("topologySpreadConstraints").enumerate() {
        last.insert((constraint.text("topologyKey"), constraint.text("whenUnsatisfiable")), index);
    }
    for (index, constraint) in spec.list("topologySpreadConstraints").enumerate() {
        let positive = |name: &str, errors: &mut Vec<FieldError>| {
            let number = constraint.integer(name);
            if number <= 0 {
                errors.push(FieldError::invalid_value(
                    constraint.at(name),
                    number,
                    "must be greater than zero",
                ));
            }
        };
        positive("maxSkew", errors);
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if key.is_empty() {
            errors.push(FieldError::required(constraint.at("topologyKey"), "can not be empty"));
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let supported = &["DoNotSchedule", "ScheduleAnyway"];
            errors.push(FieldError::not_supported(constraint.at("whenUnsatisfiable"), action, supported));
        }
        if last.get(&(key, action)).is_some_and(|last| *last > index) {
            let path = constraint.at("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(path, &format!("{{{key}, {action}}}")));
        }
        if let Some(domains) = constraint.integer_option("minDomains") {
            positive("minDomains", errors);
            if action != "DoNotSchedule" {
                let message =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(FieldError::invalid_value(constraint.at("minDomains"), domains, message));
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) =
                constraint.text_option(name).filter(|value| !matches!(*value, "Honor" | "Ignore"))
            {
                errors.push(FieldError::not_supported(constraint.at(name), policy, &["Honor", "Ignore"]));
            }
        }
        validate_spread_keys(&constraint, errors);
    }
}

fn validate_spread_keys(constraint: &Node<'_>, errors: &mut Vec<FieldError>) {
    let keys = constraint.texts("matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    let path = constraint.at("matchLabelKeys");
    let mut selected = HashSet::new();
    match constraint.child("labelSelector") {
        Some(selector) => {
            selected.extend(selector.entries("matchLabels").map(|(key, _)| key));
            selected.extend(selector.list("matchExpressions").map(|requirement| requirement.text("key")));
        }
        None => errors
            .push(FieldError::forbidden(path.clone(), "must not be specified when labelSelector is not set")),
    }
    for (index, key) in keys.into_iter().enumerate() {
        validate_label_name(key, &path.index(index), errors);
        if selected.contains(key) {
            let message = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(path.index(index), key, message));
        }
    }
}
