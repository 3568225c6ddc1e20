//! What the strategies of an update order may say (docs/behaviour/sidecarset.md#spec-rules and
//! docs/behaviour/in-place-update.md#update-order).

use std::collections::HashSet;

use api::sidecarset::{PriorityStrategy, ScatterTerm};

use pod::template::metadata::validate_selector;
use values::field::{FieldError, FieldPath};
use values::selector::is_empty;

/// Checks `priorityStrategy`, which is at `path`.
pub(crate) fn validate_priority(priority: &PriorityStrategy, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let required = |message: &str| FieldError::required(path.clone(), message);
    if !priority.weight_priority.is_empty() && !priority.order_priority.is_empty() {
        errors.push(required("only one of weightPriority and orderPriority can be used"));
    }
    for (index, term) in priority.weight_priority.iter().enumerate() {
        if !(0..=100).contains(&term.weight) {
            errors.push(required("weight must be valid number in the range 1-100"));
        }
        if is_empty(&term.match_selector) {
            errors.push(required("selector can not be empty"));
        }
        let path = path.child("weightPriority").index(index).child("matchSelector");
        validate_selector(&term.match_selector, &path, errors);
    }
    for term in &priority.order_priority {
        if term.ordered_key.is_empty() {
            errors.push(required("order key can not be empty"));
        }
    }
}

/// Checks `scatterStrategy`, which is at `path`.
pub(crate) fn validate_scatter(terms: &[ScatterTerm], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for term in terms {
        if term.key.is_empty() {
            errors.push(FieldError::required(path.clone(), "key should not be empty"));
        }
        if !seen.insert((&term.key, &term.value)) {
            let message = format!("duplicated key={} value={}", term.key, term.value);
            errors.push(FieldError::required(path.clone(), message));
        }
    }
}
