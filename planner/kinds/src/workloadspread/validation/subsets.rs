//! The subsets of a WorkloadSpread.

use std::collections::HashSet;

use api::kinds::shared::IntOrString;
use api::kinds::workloadspread::{Subset, WorkloadSpread};
use serde_json::{Value, json};

use super::Context;
use pod::template::comparison::is_same;
use pod::template::complete::{with_claims, with_defaults};
use pod::template::node::{Node, check_types};
use pod::template::scheduling::{validate_node_term, validate_preferred_node_term, validate_tolerations};
use pod::template::trial::Trial;
use pod::template::{Depth, RestartPolicy, TemplateRules, validate_template};
use values::canonical::{Kind, table};
use values::field::{FieldError, FieldPath};
use values::strategic_merge;

pub(super) fn validate(spread: &WorkloadSpread, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.subsets");
    let subsets = &spread.spec.subsets;
    if subsets.is_empty() {
        errors.push(FieldError::required(path, "subsets number must >= 1 in WorkloadSpread"));
        return;
    }
    let mut names = HashSet::new();
    let mut quotas =
        Quotas { kind: None, percents: 0, goes_by_ordinal: spread.spec.target_ref.kind == "StatefulSet" };
    for (index, subset) in subsets.iter().enumerate() {
        let path = path.index(index);
        if subset.name.is_empty() {
            errors.push(FieldError::invalid(path.child("name"), "", ""));
        } else if !names.insert(&subset.name) {
            let message = format!("duplicated subset name {}", subset.name);
            errors.push(FieldError::invalid(path.child("name"), &subset.name, message));
        }
        validate_placement(subset, &path, errors);
        validate_patch(subset, context, &path.child("patch"), errors);
        if let Some(error) = quotas.problem(subset, &path.child("maxReplicas")) {
            errors.push(error);
            return;
        }
    }
    let last_is_limited = subsets.last().is_some_and(|last| last.max_replicas.is_some());
    if quotas.kind == Some(QuotaKind::Percent) && quotas.percents < 100 && last_is_limited {
        let message = "maxReplicas sum of all subsets must equal 100% when type is specified as percent";
        let first = subsets.first().map(|first| json!(first.max_replicas)).unwrap_or_default();
        errors.push(FieldError::invalid_value(path.index(0).child("maxReplicas"), first, message));
    }
}

/// Which Nodes, by the rules for Pods.
fn validate_placement(subset: &Subset, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some(raw) = &subset.required_node_selector {
        let term: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let term = Node::new(&term, path.child("requiredNodeSelector"));
        check_types(&term, &Kind::Struct(&table::NODE_SELECTOR_TERM), errors);
        validate_node_term(&term, true, errors);
    }
    let read = |list: &[api::Raw]| -> Value {
        list.iter().map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap_or_default()).collect()
    };
    let lists = json!({
        "preferredNodeSelector": read(&subset.preferred_node_selector),
        "tolerations": read(&subset.tolerations),
    });
    let lists = Node::new(&lists, path.clone());
    for term in lists.list("preferredNodeSelector") {
        check_types(&term, &Kind::Struct(&table::PREFERRED_SCHEDULING_TERM), errors);
        validate_preferred_node_term(&term, errors);
    }
    for toleration in lists.list("tolerations") {
        check_types(&toleration, &Kind::Struct(&table::TOLERATION), errors);
    }
    validate_tolerations(lists.list("tolerations"), errors);
}

/// The patch makes sound Pods of the target's template.
fn validate_patch(subset: &Subset, context: &Context<'_>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(patch) = patch_of(subset) else { return };
    let Some(template) = context.target.and_then(template_of) else { return };
    let merged = match patched(&template.to_string(), patch) {
        Ok(merged) => merged,
        Err(problem) => return errors.push(FieldError::invalid(path.clone(), patch, problem)),
    };
    let rules = TemplateRules {
        path: path.clone(),
        depth: Depth::Full,
        restart_policy: RestartPolicy::Any,
        selector: None,
        allow_privileged: context.allow_privileged,
    };
    errors.extend(validate_template(&with_defaults(&merged, context.gates), &rules));
}

/// Patches beyond this number are judged by our own rules alone.
const TRIED: usize = 16;

/// The target's template with each patch, where a patch makes another one of it than that of the stored subset does.
pub(super) fn trials(new: &WorkloadSpread, old: Option<&WorkloadSpread>, target: &Value) -> Vec<Trial> {
    let Some(template) = template_of(target) else { return Vec::new() };
    let text = template.to_string();
    let tried = |subset: &Subset| patched(&text, patch_of(subset)?).ok();
    let trial = |(index, subset): (usize, &Subset)| {
        let known = old.and_then(|old| old.spec.subsets.iter().find(|known| known.name == subset.name));
        // What is wrong with the target is not the fault of the patch.
        let known = known.and_then(tried).unwrap_or_else(|| template.clone());
        let path = FieldPath::new("spec.subsets").index(index).child("patch");
        let new = tried(subset).filter(|new| !is_same(&known, new))?;
        Some(Trial::of_template(new, Some(known), path))
    };
    new.spec.subsets.iter().enumerate().filter_map(trial).take(TRIED).collect()
}

fn patch_of(subset: &Subset) -> Option<&str> {
    subset.patch.as_ref().filter(|patch| !patch.is_null()).map(|patch| patch.get())
}

/// The Pod template of a target, with its claims.
fn template_of(target: &Value) -> Option<Value> {
    Some(with_claims(target.pointer("/spec/template")?, target))
}

fn patched(template: &str, patch: &str) -> Result<Value, String> {
    let merged = strategic_merge::merge(template, patch, &table::POD_TEMPLATE_SPEC)
        .map_err(|error| format!("failed to merge patch: {error}"))?;
    serde_json::from_str(&merged).map_err(|error| format!("failed to unmarshal: {error}"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QuotaKind {
    Number,
    Percent,
}

/// The quotas of the subsets that were checked.
struct Quotas {
    /// That of the first subset with a quota.
    kind: Option<QuotaKind>,
    percents: i64,
    goes_by_ordinal: bool,
}

impl Quotas {
    fn problem(&mut self, subset: &Subset, path: &FieldPath) -> Option<FieldError> {
        let max = subset.max_replicas.as_ref()?;
        let refused = |message: &str| Some(FieldError::invalid_value(path.clone(), json!(max), message));
        let kind = match max {
            IntOrString::Int(_) => QuotaKind::Number,
            IntOrString::String(_) => QuotaKind::Percent,
        };
        if *self.kind.get_or_insert(kind) != kind {
            return refused("the maxReplicas type of all subsets must be the same");
        }
        if self.goes_by_ordinal && kind == QuotaKind::Percent {
            return refused("the maxReplicas type must be Int for StatefulSet");
        }
        let number = match max {
            IntOrString::Int(number) => Some(i64::from(*number)),
            IntOrString::String(text) => {
                text.strip_suffix('%').and_then(|digits| digits.parse::<i32>().ok()).map(i64::from)
            }
        };
        let Some(number) = number.filter(|number| *number >= 0) else {
            return refused("maxReplicas is not valid for subset");
        };
        if kind == QuotaKind::Percent {
            self.percents += number;
            if self.percents > 100 {
                return refused("the sum of all subset's maxReplicas exceeds 100% is no permitted");
            }
        }
        None
    }
}
