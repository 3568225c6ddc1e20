//! Checks of numbers and paths that many fields share.

use super::names;
use crate::text::field::{FieldError, FieldPath};

/// Reports a number outside `range`.
pub(super) fn validate_range(
    number: i64,
    range: std::ops::RangeInclusive<i64>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if !range.contains(&number) {
        errors.push(FieldError::invalid_value(path.clone(), number, names::range_message(&range)));
    }
}

/// A path that stays below where it starts.
pub(super) fn validate_relative_path(path: &str, at: &FieldPath, errors: &mut Vec<FieldError>) {
    if path.starts_with('/') {
        errors.push(FieldError::invalid(at.clone(), path, "must be a relative path"));
    }
    validate_no_backsteps(path, at, errors);
}

/// A path without `..`.
pub(super) fn validate_no_backsteps(path: &str, at: &FieldPath, errors: &mut Vec<FieldError>) {
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(at.clone(), path, "must not contain '..'"));
    }
}
