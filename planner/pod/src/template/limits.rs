//! Checks of numbers that many fields share.

use api::sidecarset::IntOrString;

use super::names;
use values::field::{FieldError, FieldPath};
use values::json_patch;

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

/// A number that is not negative, or a percentage of any size.
pub fn validate_number_or_percent(value: &IntOrString, path: FieldPath, errors: &mut Vec<FieldError>) {
    match value {
        IntOrString::Int(number) if *number < 0 => {
            errors.push(FieldError::invalid_value(path, number, "must be greater than or equal to 0"));
        }
        IntOrString::Int(_) => {}
        IntOrString::String(text) => {
            if let Some(message) = names::percent(text) {
                let text = json_patch::string(text);
                let shown = format!("intstr.IntOrString{{Type:1, IntVal:0, StrVal:{text}}}");
                errors.push(FieldError::invalid_value(path, shown, message));
            }
        }
    }
}
