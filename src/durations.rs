//! Durations as Go's flag package reads them: `300ms`, `1h30m`, `0`.

use std::time::Duration;

/// Reads `text`.
///
/// # Errors
/// A sentence that names what is wrong.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let invalid = || format!("invalid duration {text:?}: write for example 300ms, 15s, 2m or 1h30m");
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let unit = tail.find(|letter: char| letter.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(invalid()),
        };
        total += number * seconds;
        rest = tail;
    }
    if text.is_empty() { Err(invalid()) } else { Duration::try_from_secs_f64(total).map_err(|_| invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_understood() {
        for (text, seconds) in [("15s", 15.0), ("1h30m", 5400.0), ("300ms", 0.3), ("0", 0.0), ("1.5m", 90.0)] {
            assert_eq!(parse(text).unwrap(), Duration::from_secs_f64(seconds), "{text}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        for text in ["", "5", "s", "5 s", "-5s", "5d"] {
            assert!(parse(text).unwrap_err().contains("invalid duration"), "{text}");
        }
    }
}
