//! The subsets of a UnitedDeployment.

use std::collections::HashSet;

use api::Raw;
use api::kinds::shared::{IntOrString, ScheduleStrategyType};
use api::kinds::uniteddeployment::{Spec, Subset};
use serde_json::{Value, json};

use crate::uniteddeployment::allocation::{count, is_elastic};
use crate::uniteddeployment::normal::canonical_value;
use pod::template::names;
use pod::template::node::{Node, check_types};
use pod::template::scheduling::{validate_node_term, validate_tolerations};
use values::canonical::{Kind, Unknown, table};
use values::field::{FieldError, FieldPath};

/// What a most number counts as where it is not said.
const UNLIMITED: i64 = 1_000_000;

fn path() -> FieldPath {
    FieldPath::new("spec.topology.subsets")
}

pub(super) fn validate(spec: &Spec, errors: &mut Vec<FieldError>) {
    let mut names = HashSet::new();
    for (index, subset) in spec.topology.subsets.iter().enumerate() {
        let path = path().index(index);
        let name = &subset.name;
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        } else if !names.insert(name) {
            errors.push(FieldError::invalid(
                path.child("name"),
                name,
                format!("duplicated subset name {name}"),
            ));
        } else {
            let problems = names::dns_label(name);
            let refused = |problem: String| {
                FieldError::invalid(path.child("name"), name, format!("invalid subset name {problem}"))
            };
            errors.extend(problems.into_iter().map(refused));
        }
        validate_placement(subset, &path, errors);
        validate_numbers(spec, subset, &path, errors);
    }
    validate_sums(spec, errors);
}

fn validate_placement(subset: &Subset, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some(raw) = &subset.node_selector_term {
        let term: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let term = Node::new(&term, path.child("nodeSelectorTerm"));
        check_types(&term, &Kind::Struct(&table::NODE_SELECTOR_TERM), errors);
        validate_node_term(&term, false, errors);
    }
    let tolerations: Value = subset
        .tolerations
        .iter()
        .map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap_or_default())
        .collect();
    let list = json!({"tolerations": tolerations});
    let list = Node::new(&list, path.clone());
    for toleration in list.list("tolerations") {
        check_types(&toleration, &Kind::Struct(&table::TOLERATION), errors);
    }
    validate_tolerations(list.list("tolerations"), errors);
}

fn validate_numbers(spec: &Spec, subset: &Subset, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let is_adaptive = spec.topology.schedule_strategy.kind == Some(ScheduleStrategyType::Adaptive);
    if subset.replicas.is_some() && is_adaptive {
        let message = "specify replicas use minReplicas/maxReplicas to enable adaptive strategy";
        errors.push(FieldError::forbidden(path.child("replicas"), message));
    }
    for (name, value) in [
        ("replicas", &subset.replicas),
        ("minReplicas", &subset.min_replicas),
        ("maxReplicas", &subset.max_replicas),
    ] {
        let Some(value) = value else { continue };
        if let Some(problem) = problem(value, spec.replicas.is_some()) {
            errors.push(FieldError::invalid_value(path.child(name), json!(value), problem));
        }
    }
    let total = spec.replicas.unwrap_or(0).max(0);
    let number =
        |value: &Option<IntOrString>| value.as_ref().and_then(|value| count(value, total)).map(i64::from);
    let least = number(&subset.min_replicas).unwrap_or(0);
    if least > number(&subset.max_replicas).unwrap_or(UNLIMITED) {
        let message = "subset[i].minReplicas must be less than or equal to maxReplicas";
        errors.push(FieldError::invalid_value(
            path.child("minReplicas"),
            json!(subset.min_replicas),
            message,
        ));
    }
}

/// What is wrong with a number of Pods.
fn problem(value: &IntOrString, has_total: bool) -> Option<String> {
    match value {
        IntOrString::Int(number) if *number < 0 => {
            Some(format!("subset replicas ({number}) should not be less than 0"))
        }
        IntOrString::Int(_) => None,
        IntOrString::String(text) => {
            let Some(digits) = text.strip_suffix('%') else {
                return Some(format!(
                    "subset replicas ({text}) only support integer value or percentage value with a suffix '%'"
                ));
            };
            match digits.parse::<i64>() {
                Ok(share) if !(0..=100).contains(&share) => {
                    Some(format!("subset replicas ({text}) should be in range [0, 100]"))
                }
                Ok(_) if !has_total => Some(format!(
                    "subset replicas ({text}) can't be a percentage while spec.replicas is empty"
                )),
                Ok(_) => None,
                Err(_) => Some(format!("subset replicas ({text}) should be correct percentage integer")),
            }
        }
    }
}

fn validate_sums(spec: &Spec, errors: &mut Vec<FieldError>) {
    let subsets = &spec.topology.subsets;
    let shares = subsets.iter().filter(|subset| subset.replicas.is_some()).count();
    let is_bounded = subsets.iter().any(is_elastic);
    let mut refuse = |message: String| errors.push(FieldError::forbidden(path(), message));
    if is_bounded && shares > 0 {
        refuse("subset.replicas and subset.minReplicas/subset.maxReplicas are mutually exclusive in a UnitedDeployment".to_owned());
        return;
    }
    let Some(total) = spec.replicas.map(|total| total.max(0)) else {
        if is_bounded {
            refuse("spec.replicas must be not empty if you set subset.minReplicas/maxReplicas".to_owned());
        } else if shares < subsets.len() {
            refuse(
                "if UnitedDeployment replicas is not provided, replicas of all subsets should be provided"
                    .to_owned(),
            );
        }
        return;
    };
    let sum = |pick: fn(&Subset) -> &Option<IntOrString>, default: i64| -> i64 {
        let number =
            |subset| pick(subset).as_ref().map_or(Some(default), |value| count(value, total).map(i64::from));
        subsets.iter().filter_map(number).sum()
    };
    if is_bounded {
        if subsets.iter().all(|subset| subset.max_replicas.is_some()) {
            refuse("at least one subset.maxReplicas must be empty".to_owned());
        }
        let least = sum(|subset| &subset.min_replicas, 0);
        let most = sum(|subset| &subset.max_replicas, UNLIMITED);
        if least > most {
            refuse(format!(
                "sum of indicated subset.minReplicas should not be greater than sum of subset.maxReplicas: {least} > {most}"
            ));
        }
        return;
    }
    let given = sum(|subset| &subset.replicas, 0);
    let total = i64::from(total);
    if given > total {
        refuse(format!(
            "sum of indicated subset replicas {given} should not be greater than UnitedDeployment replicas {total}"
        ));
    } else if !subsets.is_empty() && shares == subsets.len() && given != total {
        refuse(format!(
            "if replicas of all subsets are provided, the sum of indicated subset replicas {given} should equal UnitedDeployment replicas {total}"
        ));
    }
}

/// Where the Pods of a subset go is settled when it is created.
pub(super) fn validate_update(new: &Spec, old: &Spec, errors: &mut Vec<FieldError>) {
    // What has no canonical form is compared as it is written.
    let read = |raw: &Raw, kind: &Kind| {
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        canonical_value(&value, kind, Unknown::Keep).unwrap_or(value)
    };
    let term = |subset: &Subset| {
        let term = subset.node_selector_term.as_ref();
        term.map(|raw| read(raw, &Kind::Struct(&table::NODE_SELECTOR_TERM))).filter(|term| *term != json!({}))
    };
    let tolerations = |subset: &Subset| {
        let all = subset.tolerations.iter();
        all.map(|raw| read(raw, &Kind::Struct(&table::TOLERATION))).collect::<Vec<_>>()
    };
    for (index, subset) in new.topology.subsets.iter().enumerate() {
        let known = old.topology.subsets.iter().find(|known| known.name == subset.name);
        let Some(known) = known else { continue };
        let mut refuse = |name: &str| {
            let path = path().index(index).child(name);
            errors.push(FieldError::forbidden(path, "may not be changed in an update"));
        };
        if term(subset) != term(known) {
            refuse("nodeSelectorTerm");
        }
        if tolerations(subset) != tolerations(known) {
            refuse("tolerations");
        }
    }
}
