//! JSON text without a type: escaping, compact form, sorted keys.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::value::RawValue;

use super::CanonicalError;

/// How deep a value without a type may nest.
const MAX_DEPTH: usize = 128;

/// What becomes of numbers when JSON is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// The digits stay as they are written.
    Exact,
    /// Integers go through a 64-bit float and lose digits beyond 2^53, as in Go's `map[string]any`.
    Double,
}

/// Appends a string as Go's encoder writes it (docs/behaviour/pod-mutation.md#sidecarset-hash).
pub(super) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write_escape(out, character),
            other => out.push(other),
        }
    }
    out.push('"');
}

fn write_escape(out: &mut String, character: char) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(character));
}

/// Appends JSON without the white space between its parts; strings keep the escapes they have, and get
/// those of Go's encoder.
pub(super) fn write_compact(out: &mut String, json: &str) {
    let (mut in_string, mut escaped) = (false, false);
    for character in json.chars() {
        match character {
            ' ' | '\n' | '\r' | '\t' if !in_string => continue,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write_escape(out, character),
            other => out.push(other),
        }
        in_string ^= character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
    }
}

/// Compact JSON with the keys sorted at every level and strings as Go's encoder writes them. Of a key
/// given twice the last one counts.
///
/// # Errors
/// Where `json` is not JSON, or nests deeper than 128 levels.
pub fn sorted_json(json: &str, numbers: Numbers) -> Result<String, CanonicalError> {
    let mut out = String::with_capacity(json.len());
    write_sorted(&mut out, json, numbers, 0)?;
    Ok(out)
}

fn write_sorted(out: &mut String, json: &str, numbers: Numbers, depth: usize) -> Result<(), CanonicalError> {
    if depth > MAX_DEPTH {
        return Err(CanonicalError::new("nests too deep"));
    }
    match json.trim_start().bytes().next() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(json)?;
            out.push('{');
            let start = out.len();
            for (name, value) in members {
                separate(out, start);
                write_string(out, &name);
                out.push(':');
                write_sorted(out, value.get(), numbers, depth + 1).map_err(|error| error.within(&name))?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(json)?;
            out.push('[');
            let start = out.len();
            for (index, value) in elements.into_iter().enumerate() {
                separate(out, start);
                write_sorted(out, value.get(), numbers, depth + 1).map_err(|error| error.at(index))?;
            }
            out.push(']');
        }
        Some(b'"') => {
            let text: Cow<'_, str> = serde_json::from_str(json)?;
            write_string(out, &text);
        }
        _ => {
            let literal = serde_json::from_str::<&RawValue>(json)?.get();
            match literal.parse::<i64>() {
                Ok(number) if numbers == Numbers::Double && number.unsigned_abs() > 1 << 53 => {
                    // Both languages print the shortest digits that give the float back.
                    let _ = write!(out, "{}", number as f64);
                }
                _ => out.push_str(literal),
            }
        }
    }
    Ok(())
}

/// Appends a comma, unless what comes next is the first part of the value whose bracket ends at `start`.
pub(super) fn separate(out: &mut String, start: usize) {
    if out.len() > start {
        out.push(',');
    }
}
