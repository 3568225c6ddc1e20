//! Where the Pods of a subset may run: terms of Nodes, and tolerations. Nobody else judges them before the Pods are created.

use super::metadata::validate_label_name;
use super::names;
use super::node::{Node, invalid};
use values::field::FieldError;

/// Checks an element of `preferredDuringSchedulingIgnoredDuringExecution` for nodes.
pub fn validate_preferred_node_term(term: &Node<'_>, errors: &mut Vec<FieldError>) {
    let weight = term.integer("weight");
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid_value(term.at("weight"), weight, "must be in the range 1-100"));
    }
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
            "Exists" | "Gt" | "Lt" => {}
            _ => errors.push(FieldError::not_supported(path, operator, &["Equal", "Exists", "Gt", "Lt"])),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(FieldError::not_supported(toleration.at("effect"), effect, supported));
        }
    }
}
