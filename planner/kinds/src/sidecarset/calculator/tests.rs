use proptest::prelude::*;

use super::*;

fn quantity(text: &str) -> Value {
    Value::Quantity(text.parse().unwrap())
}

fn evaluate(text: &str, variable: &str) -> Result<String, String> {
    let expression = Expression::parse(text).map_err(|error| error.to_string())?;
    expression
        .evaluate(&quantity(variable))
        .map(|result| result.to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn scenario_22_expressions_of_the_worked_example() {
    for (text, variable, expected) in [
        ("max(cpu*50%, 100m)", "500m", "250m"),
        ("max(cpu*50%, 100m)", "100m", "100m"),
        ("cpu*40%", "150m", "60m"),
        ("memory*50% + 10Mi", "192Mi", "106Mi"),
        ("memory*50% + 10Mi", "128Mi", "74Mi"),
    ] {
        assert_eq!(evaluate(text, variable).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn arithmetic_follows_the_table() {
    for (text, variable, expected) in [
        ("1 + 2 * 3", "1", "7"),
        ("(1 + 2) * 3", "1", "9"),
        ("10 - 4 - 3", "1", "3"),
        ("8 / 2 / 2", "1", "2"),
        ("--cpu", "250m", "250m"),
        ("-(-1)", "1", "1"),
        ("CPU*2", "100m", "200m"),
        ("cpu/3", "100m", "33m"),
        ("cpu - 50m", "200m", "150m"),
        ("1 + cpu", "100m", "1100m"),
        ("MIN(cpu, 2)", "3", "2"),
        ("max(1, 2)", "1", "2"),
        ("1.5", "1", "1500m"),
        ("0.1*3", "1", "300m"),
        ("1e2", "1", "100"),
        ("memory * 0 + 1.5", "1Mi", "1500m"),
        ("min(memory, 1Gi)", "2Gi", "1Gi"),
        ("memory*1.5", "1Gi", "1536Mi"),
        ("cpu*50%", "0", "0"),
    ] {
        assert_eq!(evaluate(text, variable).as_deref(), Ok(expected), "{text}");
    }
    let memory = Expression::parse("memory").unwrap();
    assert_eq!(memory.evaluate(&Value::Number(1.9)).unwrap().to_string(), "1");
}

#[test]
fn refusals_have_the_texts_of_the_specification() {
    for (text, expected) in [
        ("cpu*cpu", "multiplication of two quantities"),
        ("100m*1Gi", "multiplication of two quantities"),
        ("100m/cpu", "division by quantity"),
        ("1/cpu", "division by quantity"),
        ("cpu/0", "division by zero"),
        ("MEMORY*2", "undefined variable: memory"),
        ("memory + cpu", "undefined variable: cpu"),
        ("disk", "undefined variable: disk"),
        ("avg(1, 2)", "unknown function: avg"),
        ("max(1)", "max function requires exactly 2 arguments, got 1"),
        ("min()", "min function requires exactly 2 arguments, got 0"),
        ("cpu-2", "calculation result is negative: -1500m"),
        ("1-2", "calculation result is negative: -1"),
        ("cpu +", "parse error: syntax error: unexpected end at line 1, col 6"),
        ("cpu\n  cpu", "parse error: syntax error at line 2, col 3"),
        ("1 ? 2", "parse error: syntax error at line 1, col 3"),
        ("(cpu", "parse error: syntax error: unexpected end at line 1, col 5"),
        ("1e3Mi", "parse error: syntax error: invalid number \"1e3Mi\" at line 1, col 1"),
        ("", "parse error: syntax error: unexpected end at line 1, col 1"),
    ] {
        assert_eq!(evaluate(text, "500m"), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn malformed_numbers_count_as_zero_and_are_reported() {
    for text in ["100X", "5E", "100n", "1.2.3", "5Q", "100Mb"] {
        let expression = Expression::parse(text).unwrap();
        assert_eq!(expression.malformed_number(), Some(text));
        assert_eq!(expression.evaluate(&quantity("1")).unwrap().to_string(), "0");
    }
    assert_eq!(Expression::parse("max(cpu*50%, 1.5Gi)").unwrap().malformed_number(), None);
}

#[test]
fn nesting_is_bounded() {
    assert!(Expression::parse(&"(".repeat(100_000)).is_err());
    assert!(Expression::parse(&"-".repeat(100_000)).is_err());
    assert!(Expression::parse(&"1+".repeat(100_000)).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[-+*/(),.%0-9a-zA-Z \n]{0,40}") {
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.evaluate(&quantity("100m"));
        }
    }

    #[test]
    fn numbers_agree_with_integer_arithmetic(a in 0_i64..1000, b in 0_i64..1000, c in 1_i64..1000) {
        let text = format!("{a} + {b} * {c}");
        prop_assert_eq!(Expression::parse(&text).unwrap().evaluate(&quantity("1")).unwrap().milli(), (a + b * c) * 1000);
    }
}
