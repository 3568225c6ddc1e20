//! The figures, one line each.

/// Prints `figure NAME VALUE UNIT goal GOAL`; smaller is better. No goal prints as `-`.
pub fn figure(name: &str, value: f64, unit: &str, goal: Option<f64>) {
    let goal = goal.map_or("-".to_owned(), |goal| goal.to_string());
    println!("figure {name} {} {unit} goal {goal}", (value * 1000.0).round() / 1000.0);
}

/// Says what is going on, beside the figures.
pub fn progress(text: &str) {
    eprintln!("# {text}");
}

/// Bytes as megabytes (10^6 bytes).
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The median. The machine may be busy with other things for a while; the median doesn't care.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    assert!(!values.is_empty(), "no values");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// The median of the ratios round by round: neighbours in time, so that a slower machine slows both.
pub fn median_ratio(values: &[f64], base: &[f64]) -> f64 {
    median(values.iter().zip(base).map(|(value, base)| value / base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ignore_outliers() {
        assert_eq!(median([3.0, 1.0, 900.0]), 3.0);
        assert_eq!(median([4.0, 1.0, 2.0, 900.0]), 3.0);
        assert_eq!(median_ratio(&[2.0, 20.0, 3.0], &[1.0, 10.0, 1.0]), 2.0);
    }
}
