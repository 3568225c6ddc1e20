//! Durations as Go writes them: `300ms`, `1h30m`. Flags and the API server's `timeout` use this form.

use std::time::Duration;

/// Reads a duration of at least one number with its unit, or `0`; `None` for anything else.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = Some(text).filter(|text| !text.is_empty())?;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let unit = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, tail) = rest.split_at(unit);
        let end = tail.find(|letter: char| letter.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * scale;
        rest = tail;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let cases = [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("500ms", Some(500)),
            ("0", Some(0)),
            ("", None),
            ("10", None),
            ("s", None),
            ("-3s", None),
            ("1e9h", None),
            ("10 s", None),
            ("5d", None),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse(text), milliseconds.map(Duration::from_millis), "{text}");
        }
    }
}
