//! Values of arguments, as Go's programs read them.

use std::time::Duration;

/// Reads a duration as Go writes it, such as 1h30m.
///
/// # Errors
/// The text is none.
pub fn duration(text: &str) -> Result<Duration, String> {
    api::duration::parse(text)
        .ok_or_else(|| format!("write for example 300ms, 15s, 2m or 1h30m, not {text:?}"))
}

/// Reads a boolean as Go's flag package does.
///
/// # Errors
/// The text is none.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}
