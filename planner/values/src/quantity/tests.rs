use proptest::prelude::*;

use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Text, what Kubernetes' Go library prints for it, and what it prints after rounding up to milli.
const PRINTED_BY_GO: &[(&str, &str, &str)] = &[
    ("0", "0", "0"),
    (".", "0", "0"),
    ("+", "0", "0"),
    ("-.", "0", "0"),
    ("Ki", "0", "0"),
    ("5.", "5.", "5."),
    ("+5", "+5", "+5"),
    ("007", "007", "007"),
    ("1.500", "1.500", "1.500"),
    ("1.50", "1500m", "1500m"),
    ("1.Ki", "1.Ki", "1.Ki"),
    ("1000E", "1", "1"),
    ("8Ei", "9223372036854775807", "9223372036854775807"),
    ("7Ei", "7Ei", "7Ei"),
    ("9223372036854775808Ki", "9223372036854775807", "9223372036854775807"),
    ("0.5", "500m", "500m"),
    ("1000m", "1", "1"),
    ("1024Mi", "1Gi", "1Gi"),
    ("-0", "0", "0"),
    ("-0.5Gi", "-512Mi", "-512Mi"),
    ("0.5Gi", "512Mi", "512Mi"),
    ("0.0001Ki", "102400u", "103m"),
    ("-1.5", "-1500m", "-1500m"),
    ("123456789012345678901234567890", "123456789012345678901234567890", "123456789012345678901234567890"),
    ("0.1Ei", "115292150460684697600m", "115292150460684697600m"),
    ("1e10", "10e9", "10e9"),
    ("1000e3", "1e6", "1e6"),
    ("12e5", "1200e3", "1200e3"),
    ("0e-12", "0", "0"),
];

/// Two quantities, and the sum, difference and order that Kubernetes' Go library gives.
const COMPUTED_BY_GO: &[(&str, &str, &str, &str, Ordering)] = &[
    ("1Ti", "-10Pi", "-10239Ti", "10241Ti", Ordering::Greater),
    ("100Gi", "0Ti", "100Gi", "100Gi", Ordering::Greater),
    ("1041Ti", "137000Ki", "1117765375784Ki", "1117765101784Ki", Ordering::Greater),
    ("0Mi", "-107301.0040T", "-107301004G", "107301004G", Ordering::Greater),
    ("-1.00000Mi", "-180.000T", "-175781251024Ki", "175781248976Ki", Ordering::Greater),
    ("0Ki", "1052", "1052", "-1052", Ordering::Less),
    ("10916.68Ki", "0Gi", "11178680320m", "11178680320m", Ordering::Greater),
    ("152263Ki", "1590Mi", "1780423Ki", "-1475897Ki", Ordering::Less),
    ("0", "120230Ti", "120230Ti", "-120230Ti", Ordering::Less),
];

#[test]
fn canonical_text_is_that_of_go() {
    for (text, canonical, rounded) in PRINTED_BY_GO {
        assert_eq!(quantity(text).to_string(), *canonical, "{text}");
        assert_eq!(quantity(text).rounded_up_to_milli().to_string(), *rounded, "{text} rounded");
    }
}

#[test]
fn arithmetic_and_order_are_those_of_go() {
    for (left, right, sum, difference, order) in COMPUTED_BY_GO {
        let (left, right) = (quantity(left), quantity(right));
        assert_eq!(left.plus(&right).to_string(), *sum, "{left} + {right}");
        assert_eq!(left.minus(&right).to_string(), *difference, "{left} - {right}");
        assert_eq!(left.cmp(&right), *order, "{left} and {right}");
    }
}

#[test]
fn texts_that_go_refuses_are_refused() {
    use QuantityError::*;
    for (text, error) in [
        ("", Syntax),
        ("1 ", Syntax),
        ("1Mi1x", Syntax),
        ("1e1.5", Syntax),
        ("x", Syntax),
        ("1K", Suffix),
        ("1ki", Suffix),
        ("1e", Suffix),
        ("1mm", Suffix),
        ("1e99999999999", Suffix),
        (".e-10", Number),
    ] {
        assert_eq!(text.parse::<Quantity>(), Err(error), "{text}");
    }
}

#[test]
fn equal_values_are_equal_in_every_notation() {
    assert_eq!(quantity("1024Mi"), quantity("1073741824"));
    assert_eq!(quantity("1e3"), quantity("1k"));
    assert_eq!(quantity("0Ki"), Quantity::ZERO);
    assert!(quantity("1e2000000000") > quantity("1e1999999999"));
    assert!(quantity("-1e2000000000") < quantity("-1"));
}

#[test]
fn units_and_milli_are_rounded_away_from_zero_and_bounded() {
    assert_eq!((quantity("1.5").units(), quantity("1.5").milli()), (2, 1500));
    assert_eq!((quantity("-1.5").units(), quantity("1n").milli()), (-2, 1));
    assert_eq!((quantity("7Ei").milli(), quantity("-1e40").units()), (i64::MAX, i64::MIN));
}

#[test]
fn numbers_print_in_the_notation_given() {
    assert_eq!(Quantity::from_milli(1500, Format::DecimalSi).to_string(), "1500m");
    assert_eq!(Quantity::from_milli(2_097_152_000, Format::BinarySi).to_string(), "2Mi");
    assert_eq!(Quantity::from_units(12_000, Format::DecimalExponent).to_string(), "12e3");
    assert_eq!(quantity("0").plus(&quantity("1Ki")).format(), Format::BinarySi);
    assert!(quantity("1").minus(&quantity("1001m")).is_negative());
    assert!(quantity("1").minus(&quantity("1000m")).is_zero());
}

proptest! {
    #[test]
    fn any_text_parses_or_fails_without_panic(text in ".{0,60}") {
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn quantity_like_text_computes_without_panic(
        left in "[+-]?[0-9]{0,40}(\\.[0-9]{0,30})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,10})?",
        right in "[+-]?[0-9]{0,40}(\\.[0-9]{0,30})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,10})?",
    ) {
        if let (Ok(left), Ok(right)) = (left.parse::<Quantity>(), right.parse::<Quantity>()) {
            let results = [left.plus(&right), left.minus(&right), left.negated().rounded_up_to_milli()];
            prop_assert!(results.iter().all(|result| !result.to_string().is_empty()));
            prop_assert_eq!(left.cmp(&right), right.cmp(&left).reverse());
            let _ = (left.units(), right.milli());
        }
    }

    #[test]
    fn canonical_text_is_stable_and_keeps_the_value(
        text in "-?[0-9]{1,9}(\\.[0-9]{1,6})?([numkMG]|[KMG]i|e-?[0-9])?",
    ) {
        let parsed = quantity(&text);
        let canonical = parsed.to_string();
        prop_assert_eq!(&quantity(&canonical), &parsed);
        prop_assert_eq!(quantity(&canonical).to_string(), canonical);
        let rounded = parsed.rounded_up_to_milli();
        prop_assert_eq!(rounded.to_string(), rounded.rounded_up_to_milli().to_string());
    }

    #[test]
    fn taking_away_what_was_added_gives_the_value_back(left in -1_000_000_000_i64.., right: i32) {
        let (left, right) =
            (Quantity::from_units(left, Format::DecimalSi), Quantity::from_milli(right.into(), Format::BinarySi));
        prop_assert_eq!(left.plus(&right).minus(&right), left);
    }
}
