//! What the strategies of an update order may say (docs/behaviour/sidecarset.md#spec-rules and
//! docs/behaviour/in-place-update.md#update-order).

use std::collections::HashSet;

use api::sidecarset::{PriorityStrategy, ScatterTerm};

use values::field::{FieldError, FieldPath};
use values::selector::{Selector, is_empty};

/// Checks `priorityStrategy`, which is at `path`.
pub(crate) fn validate_priority(priority: &PriorityStrategy, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut require = |message: String| errors.push(FieldError::required(path.clone(), message));
    if !priority.weight_priority.is_empty() && !priority.order_priority.is_empty() {
        require("only one of weightPriority and orderPriority can be used".to_owned());
    }
    for term in &priority.weight_priority {
        if !(0..=100).contains(&term.weight) {
            require("weight must be valid number in the range 1-100".to_owned());
        }
        if is_empty(&term.match_selector) {
            require("selector can not be empty".to_owned());
        } else if let Err(error) = Selector::compile(&term.match_selector) {
            require(format!("invalid selector {error}"));
        }
    }
    for term in &priority.order_priority {
        if term.ordered_key.is_empty() {
            require("order key can not be empty".to_owned());
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
